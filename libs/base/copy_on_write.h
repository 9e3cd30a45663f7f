#ifndef CALLBOARD_LIBS_BASE_COPY_ON_WRITE_H_
#define CALLBOARD_LIBS_BASE_COPY_ON_WRITE_H_

#include <memory>
#include <utility>

namespace callboard::base {

// A value that copies share until one of them changes it. A default one takes no memory beyond the
// pointer. Compared by value. Not thread-safe: copies that share belong to one thread.
template <class T>
class CopyOnWrite {
 public:
  CopyOnWrite() = default;
  explicit CopyOnWrite(T value) : value_(std::make_shared<T>(std::move(value))) {}

  const T& operator*() const { return value_ == nullptr ? Default() : *value_; }
  const T* operator->() const { return &**this; }
  T& Mutable() {
    if (value_ == nullptr || value_.use_count() > 1) value_ = std::make_shared<T>(**this);
    return *value_;
  }
  bool is_shared() const { return value_.use_count() > 1; }

  friend bool operator==(const CopyOnWrite& a, const CopyOnWrite& b) {
    return a.value_ == b.value_ || *a == *b;
  }

 private:
  static const T& Default() {
    static const T* const value = new T();
    return *value;
  }

  std::shared_ptr<T> value_;
};

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_COPY_ON_WRITE_H_
