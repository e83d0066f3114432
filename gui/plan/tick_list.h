#pragma once

#include <QString>

#include <string>
#include <vector>

class QListWidget;
class QWidget;

namespace pipescope {
/// A list of names to tick, `rows` of them in view.
QListWidget* createTicks(const QString& name, int rows, QWidget* parent);
void addTick(QListWidget& list, const std::string& name, bool ticked);
std::vector<std::string> ticked(const QListWidget& list);
/// Like the above. Throws UsageError if none is: "no <what> is selected; ..".
std::vector<std::string> someTicked(const QListWidget& list, const char* what);
}  // namespace pipescope
