#include "raise.hpp"

#include <exception>
#include <new>

#include "compiler.hpp"
#include "errors.hpp"

namespace cudademo {

namespace {

// Raises cudademo.errors.<name>(message, **attributes); takes over `attributes`, which may be null.
void raise(const char* name, const char* message, PyObject* attributes) {
  PyObject* module = PyImport_ImportModule("cudademo.errors");
  PyObject* type = module ? PyObject_GetAttrString(module, name) : nullptr;
  PyObject* arguments = type ? Py_BuildValue("(s)", message) : nullptr;
  PyObject* error = arguments ? PyObject_Call(type, arguments, attributes) : nullptr;
  if (error) PyErr_SetObject(type, error);
  Py_XDECREF(error);
  Py_XDECREF(arguments);
  Py_XDECREF(type);
  Py_XDECREF(module);
  Py_XDECREF(attributes);
}

}  // namespace

PyObject* raise_current() noexcept {
  try {
    throw;
  } catch (const PythonError&) {
    // set already
  } catch (const Cancelled&) {
    if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
  } catch (const CompileError& error) {
    raise("CompileError", error.what(), Py_BuildValue("{s:s}", "log", error.log().c_str()));
  } catch (const ArgumentError& error) {
    raise("ArgumentError", error.what(),
          Py_BuildValue("{s:s,s:i,s:s,s:s}", "kernel", error.kernel().c_str(), "position",
                        error.position(), "expected", error.expected().c_str(), "got",
                        error.got().c_str()));
  } catch (const LaunchError& error) {
    raise("LaunchError", error.what(),
          Py_BuildValue("{s:s,s:i,s:s}", "call", error.call().c_str(), "code", error.code(), "name",
                        error.name().c_str()));
  } catch (const EmulatorError& error) {
    const EmulatorError::Facts& facts = error.facts();
    raise("EmulatorError", error.what(),
          Py_BuildValue("{s:s,s:s,s:s,s:s,s:i,s:(III),s:(III),s:K,s:K}", "kind", facts.kind.c_str(),
                        "kernel", facts.kernel.c_str(), "array", facts.array.c_str(), "file",
                        facts.file.c_str(), "line", facts.line, "block", facts.block[0],
                        facts.block[1], facts.block[2], "thread", facts.thread[0], facts.thread[1],
                        facts.thread[2], "address", static_cast<unsigned long long>(facts.address),
                        "size", static_cast<unsigned long long>(facts.bytes)));
  } catch (const ToolchainError& error) {
    raise("ToolchainError", error.what(), nullptr);
  } catch (const Error& error) {
    raise("Error", error.what(), nullptr);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "unknown C++ exception");
  }
  return nullptr;
}

}  // namespace cudademo
