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
        forward_ad_(PyImport_ImportModule("torch.autograd.forward_ad")),
        level_name_(PyUnicode_InternFromString("_current_level")),
        requires_grad_(PyUnicode_InternFromString("requires_grad")) {
    if (!forward_ad_ || !level_name_ || !requires_grad_) throw PythonError();
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

  bool requires_grad(PyObject* tensor) const {
    const Object answer(PyObject_GetAttr(tensor, requires_grad_.get()));
    if (!answer) throw PythonError();
    return answer.get() == Py_True;
  }

 private:
  static Object fetch(const char* module, const char* name) {
    const Object from(PyImport_ImportModule(module));
    Object value(from ? PyObject_GetAttrString(from.get(), name) : nullptr);
    if (!value) throw PythonError();
    return value;
  }

  Object tensor_, parameter_, dispatch_depth_, forward_ad_, level_name_, requires_grad_;
};

}  // namespace cudademo
