#pragma once

#include <QByteArray>
#include <QString>

class QWidget;

namespace pipescope {
enum class ImageFormat { png, svg, pdf };

/// Format by the suffix of the file's name. Throws UsageError for another suffix.
ImageFormat imageFormatOf(const QString& path);
/// The widget as on screen, at its current size. Deterministic.
QByteArray drawImage(QWidget& widget, ImageFormat format);
/// Writes beside the target and renames. Throws Error if it cannot be written.
void saveImage(QWidget& widget, const QString& path);
}  // namespace pipescope
