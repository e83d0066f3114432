#include "gui/style/file_name.h"

#include "base/error.h"
#include "base/printable.h"

#include <QFile>
#include <QRegularExpression>

#include <string_view>
#include <system_error>

namespace pipescope {
namespace {
bool isText(std::string_view bytes) {
    while (!bytes.empty()) {
        const std::size_t length = utf8_length(bytes);
        if (length == 0) {
            return false;
        }
        bytes.remove_prefix(length);
    }
    return true;
}

[[noreturn]] void refuse(const std::string& path) {
    throw Error("'" + printable(path) +
                "' is a name that is not UTF-8, and the viewer could take another file for it; rename it, or give the "
                "name of a link to it");
}

/// Decoders differ in how many U+FFFD a run of bytes becomes.
QString withRunsAsOne(QString text) {
    static const QRegularExpression run(QStringLiteral("\\x{FFFD}+"));
    return text.replace(run, QString(QChar(QChar::ReplacementCharacter)));
}
}  // namespace

QString textOfPath(const std::string& path) {
    if (!isText(path)) {
        refuse(path);
    }
    return QString::fromStdString(path);
}

std::filesystem::path pathOf(const QString& text) {
    std::filesystem::path path(text.toStdString());
    if (!text.contains(QChar(QChar::ReplacementCharacter))) {
        return path;
    }
    std::filesystem::path above;
    for (const std::filesystem::path& part : path) {
        const QString shown = QString::fromStdString(part.string());
        std::error_code ignored;
        const std::filesystem::path folder = above.empty() ? std::filesystem::path(".") : above;
        if (shown.contains(QChar(QChar::ReplacementCharacter))) {
            for (std::filesystem::directory_iterator each(folder, ignored), end; each != end; each.increment(ignored)) {
                const std::string name = each->path().filename().string();
                if (!isText(name) &&
                    withRunsAsOne(QFile::decodeName(QByteArray::fromStdString(name))) == withRunsAsOne(shown)) {
                    refuse((above / name).string());
                }
            }
        }
        above /= part;
    }
    return path;
}
}  // namespace pipescope
