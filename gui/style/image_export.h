#pragma once

#include <QByteArray>
#include <QString>

class QWidget;

namespace pipescope {
enum class ImageFormat { png, svg, pdf };

/// By the ending of the file's name. Throws UsageError for another one.
ImageFormat imageFormatOf(const QString& path);
/// The widget as it would stand on screen, at its present size. The same widget gives the same bytes.
QByteArray drawImage(QWidget& widget, ImageFormat format);
/// Written beside the target and renamed. Throws Error if it cannot be written.
void saveImage(QWidget& widget, const QString& path);
}  // namespace pipescope
