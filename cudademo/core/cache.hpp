// The on-disk store of Binaries: one self-contained file an entry.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "binary.hpp"

namespace cudademo {

// A file's bytes: magic, format version, checksum, then the key and the binary, each part by its
// length.
std::string encode(std::string_view key, const Binary& binary);

// The binary, or nothing with the reason in `fault`: another format, a wrong checksum, another key.
std::optional<Binary> decode(std::string_view file, std::string_view key, std::string& fault);

// The folder of entries, each named by the digest of its key. Nothing here throws: a fault is a
// miss with a reason.
class Cache {
 public:
  // `folder` need not exist yet.
  explicit Cache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  struct Found {
    std::optional<Binary> binary;
    std::string fault;  // why there is none; empty where there simply is no entry
  };

  // Reads an entry and checks it against the whole key. One that is damaged is removed; a file that
  // cannot be read is left alone.
  Found load(const std::string& digest, std::string_view key) const;

  // Writes an entry under a temporary name and renames it. Returns what went wrong, or an empty
  // string.
  std::string store(const std::string& digest, std::string_view key, const Binary& binary) const;

  std::filesystem::path path_of(const std::string& digest) const;

 private:
  std::filesystem::path folder_;
};

// CRC-32 as of ISO 3309 and zlib.
std::uint32_t crc32(std::string_view bytes) noexcept;

}  // namespace cudademo
