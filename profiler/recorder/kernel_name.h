#pragma once

#include <string>
#include <string_view>

namespace pipescope {
/// The three names nsys keeps of a kernel.
struct KernelName {
    std::string mangled;
    std::string demangled;
    std::string brief;  ///< without arguments, template arguments, return type and namespaces
};
/// A name that is not mangled (of an extern "C" kernel) stays as it is.
KernelName kernel_name(std::string_view mangled);
}  // namespace pipescope
