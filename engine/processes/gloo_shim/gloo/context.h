// Stands in for Gloo's headers, which torch's wheel leaves out although its own header of the Gloo process group asks
// for them. Only pointers to these types cross our code, so declarations are enough; no symbol of Gloo is used.
#pragma once

#include <chrono>

namespace gloo {
class Context {
public:
    void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
