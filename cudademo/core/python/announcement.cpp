#include "python/announcement.hpp"

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "driver.hpp"
#include "errors.hpp"
#include "python/raise.hpp"

namespace cudademo {

namespace {

PyObject* reachable_arrays = nullptr;  // a tuple, or null for none; guarded by the GIL

// ---- storages ----

struct Storage {
  std::uint64_t number;  // never given twice, as an address is
  PyObject* reference;   // weak, and owned
};

// Those that launches were given, until their end. Guarded by the GIL, and never destroyed:
// storages may end late.
std::unordered_map<PyObject*, Storage>& storages = *new std::unordered_map<PyObject*, Storage>();
std::uint64_t storages_so_far = 0;

// Called with the weak reference to a storage that is gone; `address` was the storage's.
PyObject* storage_is_gone(PyObject* address, PyObject*) {
  const auto found = storages.find(static_cast<PyObject*>(PyLong_AsVoidPtr(address)));
  if (found != storages.end()) {
    driver::emulator().end_owner(found->second.number);
    Py_DECREF(found->second.reference);
    storages.erase(found);
  }
  Py_RETURN_NONE;
}

PyMethodDef storage_is_gone_method{"storage_is_gone", storage_is_gone, METH_O, nullptr};

// The number of the storage behind a tensor of torch's; 0 for another owner's memory, of whose end
// nobody tells. torch keeps the Python object of a storage for as long as a tensor has it.
std::uint64_t owner_of(PyObject* array) {
  if (!is_torch_tensor(array)) return 0;
  static PyObject* const name = PyUnicode_InternFromString("untyped_storage");
  const Object storage(PyObject_CallMethodNoArgs(array, name));
  if (!storage) {
    PyErr_Clear();
    return 0;
  }
  const auto found = storages.find(storage.get());
  if (found != storages.end()) return found->second.number;
  const Object address(PyLong_FromVoidPtr(storage.get()));
  const Object gone(address ? PyCFunction_New(&storage_is_gone_method, address.get()) : nullptr);
  PyObject* reference = gone ? PyWeakref_NewRef(storage.get(), gone.get()) : nullptr;
  if (reference == nullptr) {
    PyErr_Clear();
    return 0;
  }
  storages[storage.get()] = {++storages_so_far, reference};
  return storages_so_far;
}

bool has_checks() {
  CudademoEmulatorOptions options{};
  driver::emulator().get_options(&options);
  return options.checks != 0;
}

}  // namespace

void announce(const std::string& kernel, PyObject* const* arguments, const Array* arrays,
              std::size_t count, Borrower& borrower) {
  std::vector<std::string> names;
  std::vector<PyObject*> objects;
  names.reserve(count);
  objects.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_reachable(arrays[i], driver::emulator_ordinal)) continue;
    names.push_back("argument " + std::to_string(i));
    objects.push_back(arguments[i]);
  }
  const Py_ssize_t further = reachable_arrays != nullptr ? PyTuple_GET_SIZE(reachable_arrays) : 0;
  for (Py_ssize_t i = 0; i < further; ++i) {
    names.push_back("reachable array " + std::to_string(i));
    objects.push_back(PyTuple_GET_ITEM(reachable_arrays, i));
    try {
      borrower.borrow(objects.back());
    } catch (const Refused& refused) {
      throw Error(kernel + ": " + names.back() + ": " + refused.got);
    }
  }
  const std::vector<Borrower::HostView>& views = borrower.host_views();
  if (views.size() != names.size()) {
    throw Error(kernel + ": a reachable array is no longer in the CPU's memory");
  }
  const bool tells_owners = has_checks();
  std::vector<CudademoEmulatorArray> told;
  told.reserve(views.size());
  for (std::size_t i = 0; i < views.size(); ++i) {
    names[i] += ", " + views[i].label;
    told.push_back({views[i].begin, views[i].end, names[i].c_str(), views[i].writable ? 1 : 0,
                    tells_owners ? owner_of(objects[i]) : 0});
  }
  driver::emulator().set_arrays(kernel.c_str(), told.data(), told.size());
}

void set_reachable(PyObject* tuple) {
  Borrower borrower;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    std::string got;
    try {
      const Array array = borrower.borrow(item);
      if (is_reachable(array, driver::emulator_ordinal)) continue;
      got = describe(item, array);
    } catch (const Refused& refused) {
      got = refused.got;
    }
    throw Refused{"reachable[" + std::to_string(i) + "]: an array in the CPU's memory, not " + got};
  }
  PyObject* before = reachable_arrays;
  reachable_arrays = Py_NewRef(tuple);
  Py_XDECREF(before);
}

Object reachable() {
  return reachable_arrays != nullptr ? keep(reachable_arrays) : Object(PyTuple_New(0));
}

}  // namespace cudademo
