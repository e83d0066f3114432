#pragma once

#include <QString>

#include <vector>

namespace pipescope {
struct SqlExample {
    QString title;
    QString sql;
};
/// Queries to start from; docs/trace-format.md explains the tables.
const std::vector<SqlExample>& sqlExamples();
}  // namespace pipescope
