#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace pipescope {
/// A list of plain values that allocates nothing while it holds at most `kFew`. For millions of short lists.
template <class T, std::uint32_t kFew>
class SmallVector {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

public:
    SmallVector() = default;
    SmallVector(std::initializer_list<T> values) {
        for (const T& value : values) {
            push_back(value);
        }
    }
    SmallVector(const SmallVector& other) { append(other); }
    SmallVector(SmallVector&& other) noexcept { swap(other); }
    SmallVector& operator=(SmallVector other) noexcept {
        swap(other);
        return *this;
    }
    ~SmallVector() {
        if (capacity_ > kFew) {
            delete[] data_.many;
        }
    }

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T* begin() { return capacity_ > kFew ? data_.many : data_.few; }
    T* end() { return begin() + size_; }
    const T* begin() const { return capacity_ > kFew ? data_.many : data_.few; }
    const T* end() const { return begin() + size_; }
    T& operator[](std::size_t k) { return begin()[k]; }
    const T& operator[](std::size_t k) const { return begin()[k]; }
    const T& front() const { return *begin(); }

    void clear() { size_ = 0; }
    void push_back(T value) {
        if (size_ == capacity_) {
            grow();
        }
        begin()[size_++] = value;
    }
    void assign(std::size_t count, T value) {
        clear();
        for (std::size_t k = 0; k < count; ++k) {
            push_back(value);
        }
    }
    /// Removes the elements from `place` on.
    void truncate(const T* place) { size_ = static_cast<std::uint32_t>(place - begin()); }

    friend bool operator==(const SmallVector& a, const SmallVector& b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }
    friend auto operator<=>(const SmallVector& a, const SmallVector& b) {
        return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
    }

private:
    union Data {
        Data() : few{} {}
        T few[kFew];
        T* many;
    };
    void append(const SmallVector& other) {
        for (const T& value : other) {
            push_back(value);
        }
    }
    void swap(SmallVector& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }
    void grow() {
        T* const more = new T[std::size_t{capacity_} * 2];
        std::copy(begin(), end(), more);
        if (capacity_ > kFew) {
            delete[] data_.many;
        }
        data_.many = more;
        capacity_ *= 2;
    }

    Data data_;
    std::uint32_t size_ = 0;
    std::uint32_t capacity_ = kFew;
};
}  // namespace pipescope
