#include "profiler/recorder/kernel_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace pipescope {
namespace {
/// Position of the bracket that matches the closing one at the end of `text`; npos if there is none.
std::size_t opening(std::string_view text, char open, char close) {
    int depth = 0;
    for (std::size_t k = text.size(); k > 0; --k) {
        depth += text[k - 1] == close ? 1 : text[k - 1] == open ? -1 : 0;
        if (depth == 0) {
            return k - 1;
        }
    }
    return std::string_view::npos;
}

std::string_view without(std::string_view text, char open, char close) {
    if (text.ends_with(close)) {
        if (const std::size_t at = opening(text, open, close); at != std::string_view::npos && at > 0) {
            return text.substr(0, at);
        }
    }
    return text;
}

std::string_view brief_name(std::string_view demangled) {
    std::string_view name = demangled;
    if (const std::size_t clone = name.find(" [clone"); clone != std::string_view::npos) {
        name = name.substr(0, clone);
    }
    name = without(without(name, '(', ')'), '<', '>');
    if (const std::size_t at = name.rfind("::"); at != std::string_view::npos) {
        name = name.substr(at + 2);
    } else if (const std::size_t space = name.rfind(' '); space != std::string_view::npos) {
        name = name.substr(space + 1);
    }
    return name.empty() ? demangled : name;
}
}  // namespace

KernelName kernel_name(std::string_view mangled) {
    const std::string text(mangled);
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status),
                                                           std::free);
    // Demangles only C++ names: a plain word can demangle as a type, such as "i" as int.
    const bool is_cpp = status == 0 && demangled != nullptr && mangled.starts_with("_Z");
    if (!is_cpp) {
        return {text, text, text};
    }
    return {text, demangled.get(), std::string(brief_name(demangled.get()))};
}
}  // namespace pipescope
