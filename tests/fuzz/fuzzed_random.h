#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace pipescope {
/// The input as random numbers, for generators of random cases that tests share; zeros after its end.
class FuzzedRandom {
public:
    using result_type = std::uint32_t;

    /// `data` must outlive this object.
    FuzzedRandom(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

    static constexpr result_type min() { return 0; }
    static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
    /// Takes two bytes, so that a change of a byte changes one choice.
    result_type operator()() {
        std::uint16_t next = 0;
        if (size_ - at_ >= sizeof next) {
            std::memcpy(&next, data_ + at_, sizeof next);
            at_ += sizeof next;
        }
        return next * 0x10001U;
    }

private:
    const std::uint8_t* data_;
    std::size_t size_;
    std::size_t at_ = 0;
};
}  // namespace pipescope
