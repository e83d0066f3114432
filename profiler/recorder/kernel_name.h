#pragma once

#include <string>
#include <string_view>

namespace pipescope {
/// The three names that nsys stores for a kernel.
struct KernelName {
    std::string mangled;
    std::string demangled;
    std::string brief;  ///< without arguments, template arguments, return type and namespaces
};
/// An unmangled name (of an extern "C" kernel) stays unchanged.
KernelName kernel_name(std::string_view mangled);
}  // namespace pipescope
