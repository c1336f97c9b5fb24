#include "cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace cudademo {

namespace {

constexpr std::string_view magic = "cudademo";
constexpr std::uint32_t format_version = 1;
constexpr std::size_t header_bytes = 8 + 4 + 4;  // magic, version, checksum

// Eight tables, so that eight bytes go in one step; built by the compiler.
constexpr auto crc_tables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0xEDB88320U : 0U);
    tables[0][i] = value;
  }
  for (std::size_t t = 1; t < 8; ++t) {
    for (std::size_t i = 0; i < 256; ++i) {
      const std::uint32_t before = tables[t - 1][i];
      tables[t][i] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}();

void put_number(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
}

void put_text(std::string& out, std::string_view text) {
  put_number(out, text.size(), 8);
  out.append(text);
}

// Reads the parts back; runs dry with an exception that decode catches.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t number(int bytes) {
    const std::string_view part = take(static_cast<std::size_t>(bytes));
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(part[static_cast<std::size_t>(i)])}
               << (8 * i);
    }
    return value;
  }

  std::string_view text() { return take(number(8)); }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size()) throw std::out_of_range("truncated");
    const std::string_view part = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return part;
  }

  std::string_view bytes_;
};

std::string errno_text(const char* call) {
  return std::string(call) + ": " + std::generic_category().message(errno);
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int value) : value_(value) {}
  ~FileDescriptor() {
    if (value_ >= 0) ::close(value_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const noexcept { return value_; }
  // Closes now and tells whether that went well: a full network file system may only say so here.
  bool close() noexcept { return ::close(std::exchange(value_, -1)) == 0; }

 private:
  int value_;
};

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// The whole file; nothing and errno on failure.
std::optional<std::string> read_all(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return std::nullopt;
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace

std::uint32_t crc32(std::string_view bytes) noexcept {
  std::uint32_t crc = ~0U;
  const auto byte = [&bytes](std::size_t i) {
    return std::uint32_t{static_cast<unsigned char>(bytes[i])};
  };
  const auto& t = crc_tables;
  while (bytes.size() >= 8) {
    crc ^= byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
    crc = t[7][crc & 0xFF] ^ t[6][(crc >> 8) & 0xFF] ^ t[5][(crc >> 16) & 0xFF] ^ t[4][crc >> 24] ^
          t[3][byte(4)] ^ t[2][byte(5)] ^ t[1][byte(6)] ^ t[0][byte(7)];
    bytes.remove_prefix(8);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) crc = (crc >> 8) ^ t[0][(crc ^ byte(i)) & 0xFF];
  return ~crc;
}

std::string encode(std::string_view key, const Binary& binary) {
  std::string body;
  body.reserve(key.size() + binary.cubin.size() + binary.ptx.size() + 1024);
  put_text(body, key);
  put_text(body, binary.architecture);
  put_number(body, binary.kernels.size(), 4);
  for (const auto& [name, entry] : binary.kernels) {
    put_text(body, name);
    put_text(body, entry.lowered_name);
    put_text(body, entry.probe);
  }
  put_text(body, binary.log);
  put_text(body, binary.cubin);
  put_text(body, binary.ptx);
  std::string file(magic);
  put_number(file, format_version, 4);
  put_number(file, crc32(body), 4);
  return file + body;
}

std::optional<Binary> decode(std::string_view file, std::string_view key, std::string& fault) {
  if (file.size() < header_bytes || !file.starts_with(magic)) {
    fault = "not a cache entry, or a truncated one";
    return std::nullopt;
  }
  const std::string_view body = file.substr(header_bytes);
  try {
    Reader header(file.substr(magic.size()));
    if (header.number(4) != format_version) {
      fault = "written in another format";
      return std::nullopt;
    }
    if (header.number(4) != crc32(body)) {
      fault = "wrong checksum";
      return std::nullopt;
    }
    Reader reader(body);
    if (reader.text() != key) {
      fault = "made for another key";
      return std::nullopt;
    }
    Binary binary;
    binary.architecture = reader.text();
    for (std::uint64_t left = reader.number(4); left > 0; --left) {
      std::string name(reader.text());
      KernelEntry entry;
      entry.lowered_name = reader.text();
      entry.probe = reader.text();
      entry.signature = parse_probe(entry.probe);
      binary.kernels.emplace(std::move(name), std::move(entry));
    }
    binary.log = reader.text();
    binary.cubin = reader.text();
    binary.ptx = reader.text();
    return binary;
  } catch (const std::exception& error) {
    fault = error.what();
    return std::nullopt;
  }
}

std::filesystem::path Cache::path_of(const std::string& digest) const {
  return folder_ / digest.substr(0, 2) / (digest + ".cubin");
}

Cache::Found Cache::load(const std::string& digest, std::string_view key) const {
  const std::filesystem::path path = path_of(digest);
  const std::optional<std::string> file = read_all(path);
  if (!file) return {std::nullopt, errno == ENOENT || errno == ENOTDIR ? "" : errno_text("read")};
  Found found;
  found.binary = decode(*file, key, found.fault);
  if (!found.binary) ::unlink(path.c_str());
  return found;
}

std::string Cache::store(const std::string& digest, std::string_view key,
                         const Binary& binary) const {
  const std::filesystem::path path = path_of(digest);
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return "mkdir: " + error.message();
  std::string temporary = path.string() + ".XXXXXX";
  FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return errno_text("create");
  const auto fail = [&temporary](const char* call) {
    const std::string text = errno_text(call);
    ::unlink(temporary.c_str());
    return text;
  };
  if (!write_all(file.get(), encode(key, binary))) return fail("write");
  if (::fsync(file.get()) != 0) return fail("fsync");
  if (!file.close()) return fail("close");
  if (::rename(temporary.c_str(), path.c_str()) != 0) return fail("rename");
  return "";
}

}  // namespace cudademo
