// What torch has to be asked before a call may go around its dispatcher.
#pragma once

#include <Python.h>

#include "python/object.hpp"
#include "python/raise.hpp"

namespace cudademo {

// The answers are asked for at each call; the functions that give them are looked up once.
class TorchState {
 public:
  TorchState()
      : tensor_(fetch("torch", "Tensor")),
        parameter_(fetch("torch.nn", "Parameter")),
        dispatch_depth_(fetch("torch._C", "_len_torch_dispatch_stack")),
        transforming_(fetch("torch._C", "_are_functorch_transforms_active")),
        recording_(fetch("torch", "is_grad_enabled")),
        forward_ad_(PyImport_ImportModule("torch.autograd.forward_ad")),
        level_name_(PyUnicode_InternFromString("_current_level")),
        requires_grad_(PyUnicode_InternFromString("requires_grad")),
        is_cuda_(PyUnicode_InternFromString("is_cuda")) {
    if (!forward_ad_ || !level_name_ || !requires_grad_ || !is_cuda_) throw PythonError();
  }

  // A tensor of torch's own, not of a subclass that may mean something else by an operator.
  bool is_plain(PyObject* object) const {
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
    return type == tensor_.get() || type == parameter_.get();
  }

  // True where a mode of torch's watches all operators, or forward-mode derivatives are being
  // taken.
  bool is_watching() const {
    const Object depth(PyObject_CallNoArgs(dispatch_depth_.get()));
    if (!depth) throw PythonError();
    if (PyLong_AsLong(depth.get()) != 0) return true;
    PyObject* level =
        PyDict_GetItemWithError(PyModule_GetDict(forward_ad_.get()), level_name_.get());
    if (level == nullptr) {
      PyErr_Clear();
      return true;  // another torch than we know
    }
    return PyLong_AsLong(level) >= 0;
  }

  // True inside vmap, grad and the other transforms of torch.func.
  bool is_transforming() const { return is_true(PyObject_CallNoArgs(transforming_.get())); }

  // False under torch.no_grad and in inference mode.
  bool is_recording() const { return is_true(PyObject_CallNoArgs(recording_.get())); }

  bool requires_grad(PyObject* tensor) const {
    return is_true(PyObject_GetAttr(tensor, requires_grad_.get()));
  }

  bool is_cuda(PyObject* tensor) const { return is_true(PyObject_GetAttr(tensor, is_cuda_.get())); }

 private:
  // Takes over the reference, or the error where there is none.
  static bool is_true(PyObject* owned) {
    const Object answer(owned);
    if (!answer) throw PythonError();
    return answer.get() == Py_True;
  }

  static Object fetch(const char* module, const char* name) {
    const Object from(PyImport_ImportModule(module));
    Object value(from ? PyObject_GetAttrString(from.get(), name) : nullptr);
    if (!value) throw PythonError();
    return value;
  }

  Object tensor_, parameter_, dispatch_depth_, transforming_, recording_;
  Object forward_ad_, level_name_, requires_grad_, is_cuda_;
};

}  // namespace cudademo
