#pragma once

#include <QByteArray>
#include <QString>

namespace pipescope {
/// Writes a file whole, or leaves what was there. A link is replaced; what it leads to stays. Throws Error with the
/// system's reason and the remedy.
void saveFile(const QString& path, const QByteArray& bytes,
              const char* remedy = "the folder must exist and be writable, choose another place");

/// A UTF-8 text of XML or HTML with U+FFFD for the characters that neither may hold: a name from a file may have
/// control characters, and one makes a whole SVG unreadable.
QByteArray wellFormed(const QByteArray& markup);
}  // namespace pipescope
