#include "gui/timeline/compare_mode.h"

#include "schedule/error.h"

#include <array>
#include <span>
#include <string>
#include <utility>

namespace pipescope {
namespace {
constexpr std::array kModes{std::pair{CompareMode::side_by_side, "side-by-side"},
                            std::pair{CompareMode::overlay, "overlay"},
                            std::pair{CompareMode::difference, "difference"}};
constexpr std::array kAlignments{std::pair{Alignment::first_task, "first-task"}, std::pair{Alignment::step, "step"},
                                 std::pair{Alignment::task, "task"}};

template <class Names, class Value>
QString nameIn(const Names& names, Value value) {
    for (const auto& [each, name] : names) {
        if (each == value) {
            return QString::fromLatin1(name);
        }
    }
    return {};
}

template <class Names>
auto parseIn(const Names& names, const QString& text, const std::string& what) {
    std::string all;
    for (const auto& [each, name] : names) {
        if (text == QLatin1String(name)) {
            return each;
        }
        all += all.empty() ? name : std::string(", ") + name;
    }
    throw UsageError(what + " is '" + text.toStdString() + "', which is not known; choose one of " + all);
}
}  // namespace

QString nameOf(CompareMode mode) {
    return nameIn(kModes, mode);
}

CompareMode parseCompareMode(const QString& name) {
    return parseIn(kModes, name, "--mode");
}

QString nameOf(Alignment alignment) {
    return nameIn(kAlignments, alignment);
}

Alignment parseAlignment(const QString& name) {
    return parseIn(std::span(kAlignments).first(2), name, "--align");  // on the command line no task is selected
}
}  // namespace pipescope
