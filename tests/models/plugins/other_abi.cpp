// Simulates a library built against another version of models/user_model.h.

#include <cstdint>

struct Exported {
    std::uint32_t abi;
    const char* torch_version;
};

extern "C" const Exported* pipescope_model() {
    static const Exported exported{99, nullptr};
    return &exported;
}
