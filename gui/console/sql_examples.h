#pragma once

#include <QString>

#include <vector>

namespace pipescope {
struct SqlExample {
    QString title;
    QString sql;
};
/// Example queries. docs/trace-format.md explains the tables.
const std::vector<SqlExample>& sqlExamples();
}  // namespace pipescope
