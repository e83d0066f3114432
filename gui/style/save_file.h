#pragma once

#include <QByteArray>
#include <QString>

namespace pipescope {
/// Writes a file whole, or leaves what was there. Throws Error with the system's reason and the remedy.
void saveFile(const QString& path, const QByteArray& bytes,
              const char* remedy = "the folder must exist and be writable, choose another place");
}  // namespace pipescope
