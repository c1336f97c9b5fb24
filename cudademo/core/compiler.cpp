#include "compiler.hpp"

#include <exception>
#include <utility>

#include "errors.hpp"

namespace cudademo {

namespace {

// Appended to every source. A name expression over it makes NVRTC mangle a kernel's whole function
// type, and the size of each parameter, into a symbol. As a variable it costs the optimiser
// nothing: as a kernel it would be compiled. The names are long because a user's macros, such as A
// or F, are still in force here.
constexpr const char* probe_source = R"(
#line 1 "cudademo_probe"
template <unsigned... cudademo_bytes> struct cudademo_layout;
template <class cudademo_f> struct cudademo_parameters { using layout = void; };
template <class... cudademo_a> struct cudademo_parameters<void(cudademo_a...)> {
  using layout = cudademo_layout<sizeof(cudademo_a)...>;
};
template <class... cudademo_a> struct cudademo_parameters<void (*)(cudademo_a...)> {
  using layout = cudademo_layout<sizeof(cudademo_a)...>;
};
template <class cudademo_f, class cudademo_l = typename cudademo_parameters<cudademo_f>::layout>
__device__ char cudademo_probe;
)";

std::string probe_of(const std::string& kernel) {
  return "&cudademo_probe<decltype(" + kernel + ")>";
}

std::vector<const char*> pointers(const std::vector<std::string>& strings) {
  std::vector<const char*> out;
  out.reserve(strings.size());
  for (const std::string& text : strings) out.push_back(text.c_str());
  return out;
}

// Owns an nvrtcProgram.
class Program {
 public:
  Program(const Nvrtc& nvrtc, const std::string& source, const std::string& name,
          const std::map<std::string, std::string>& headers)
      : nvrtc_(nvrtc) {
    std::vector<const char*> contents;
    std::vector<const char*> names;
    for (const auto& [include_name, text] : headers) {
      names.push_back(include_name.c_str());
      contents.push_back(text.c_str());
    }
    nvrtc_.check(
        nvrtc_.functions().create(&handle_, source.c_str(), name.c_str(),
                                  static_cast<int>(names.size()), contents.data(), names.data()),
        "nvrtcCreateProgram");
  }
  ~Program() { nvrtc_.functions().destroy(&handle_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  nvrtc::Program handle() const noexcept { return handle_; }

  // A text or image by its pair of functions; without the closing zero that NVRTC counts for texts.
  template <typename Size, typename Get>
  std::string read(Size size_of, Get get, const char* call, bool text) const {
    std::size_t size = 0;
    nvrtc_.check(size_of(handle_, &size), call);
    std::string out(size, '\0');
    if (size > 0) nvrtc_.check(get(handle_, out.data()), call);
    if (text && !out.empty()) out.pop_back();
    return out;
  }

  std::string lowered(const std::string& expression) const {
    const char* name = nullptr;
    nvrtc_.check(nvrtc_.functions().lowered_name(handle_, expression.c_str(), &name),
                 "nvrtcGetLoweredName");
    return name;
  }

 private:
  const Nvrtc& nvrtc_;
  nvrtc::Program handle_ = nullptr;
};

// What the flow callback needs; an exception must not cross NVRTC's frames.
struct Flow {
  const std::function<bool()>& cancelled;
  std::exception_ptr error;
  bool stopped = false;
};

int ask_to_stop(void* payload, void*) {
  auto& flow = *static_cast<Flow*>(payload);
  try {
    flow.stopped = flow.stopped || flow.cancelled();
  } catch (...) {
    flow.error = std::current_exception();
    flow.stopped = true;
  }
  return flow.stopped ? 1 : 0;
}

}  // namespace

Binary compile(const Nvrtc& nvrtc, const CompileRequest& request,
               const std::function<bool()>& cancelled) {
  const nvrtc::Functions& functions = nvrtc.functions();
  const Program program(nvrtc, request.source + probe_source, request.name, request.headers);
  for (const std::string& kernel : request.kernels) {
    nvrtc.check(functions.add_name(program.handle(), kernel.c_str()), "nvrtcAddNameExpression");
    nvrtc.check(functions.add_name(program.handle(), probe_of(kernel).c_str()),
                "nvrtcAddNameExpression");
  }
  Flow flow{cancelled, nullptr, false};
  if (cancelled && functions.set_flow_callback != nullptr) {
    nvrtc.check(functions.set_flow_callback(program.handle(), ask_to_stop, &flow),
                "nvrtcSetFlowCallback");
  }
  std::vector<std::string> options{"--gpu-architecture=" + request.architecture};
  options.insert(options.end(), request.options.begin(), request.options.end());
  const auto arguments = pointers(options);
  const nvrtc::Result result =
      functions.compile(program.handle(), static_cast<int>(arguments.size()), arguments.data());
  if (flow.error) std::rethrow_exception(flow.error);
  // The result is no guide: a compile stopped within a header ends as a failed one.
  if (flow.stopped) throw Cancelled();

  Binary binary;
  binary.log = program.read(functions.log_size, functions.log, "nvrtcGetProgramLog", true);
  if (result == nvrtc::error_compilation) throw CompileError("compilation failed", binary.log);
  if (result != nvrtc::success && !binary.log.empty()) {
    throw CompileError(functions.error_string(result), binary.log);  // a bad option, say
  }
  nvrtc.check(result, "nvrtcCompileProgram");

  binary.architecture = request.architecture;
  binary.ptx = program.read(functions.ptx_size, functions.ptx, "nvrtcGetPTX", true);
  if (request.architecture.starts_with("sm_")) {
    binary.cubin = program.read(functions.cubin_size, functions.cubin, "nvrtcGetCUBIN", false);
  }
  for (const std::string& kernel : request.kernels) {
    KernelEntry entry;
    entry.lowered_name = program.lowered(kernel);
    entry.probe = program.lowered(probe_of(kernel));
    entry.signature = parse_probe(entry.probe);
    binary.kernels.emplace(kernel, std::move(entry));
  }
  return binary;
}

}  // namespace cudademo
