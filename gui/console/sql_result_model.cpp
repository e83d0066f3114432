#include "gui/console/sql_result_model.h"

#include "gui/style/number_format.h"
#include "gui/tables/table_export.h"

#include <QFont>
#include <QGuiApplication>
#include <QPalette>

#include <algorithm>
#include <array>

namespace pipescope {
namespace {
constexpr int kLongestShown = 2000;  // characters per cell

std::optional<SqlTarget::Kind> leadsTo(const SqlColumn& column) {
    constexpr std::array<std::string_view, 6> times{"start", "end", "time", "wallStart", "wallEnd", "launchStart"};
    if (column.table == "PIPESCOPE_TASK" && column.column == "id") {
        return SqlTarget::Kind::task_id;
    }
    if (column.column == "taskId") {
        return column.table == "PIPESCOPE_MEMORY" ? SqlTarget::Kind::task_name : SqlTarget::Kind::task_id;
    }
    if (std::find(times.begin(), times.end(), column.column) != times.end()) {
        return SqlTarget::Kind::time;
    }
    return std::nullopt;
}

QVariant plain(const SqlValue& value) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
        return QVariant::fromValue<qlonglong>(*integer);
    }
    if (const auto* real = std::get_if<double>(&value)) {
        return *real;
    }
    if (const auto* text = std::get_if<std::string>(&value)) {
        return QString::fromStdString(*text);
    }
    return {};
}

QString shown(const SqlValue& value) {
    if (std::holds_alternative<std::monostate>(value)) {
        return QStringLiteral("NULL");
    }
    if (const auto* real = std::get_if<double>(&value)) {
        return QString::number(*real, 'g', 8);
    }
    return plain(value).toString().left(kLongestShown).replace(QLatin1Char('\n'), QLatin1Char(' '));
}
}  // namespace

void SqlResultModel::setResult(SqlResult result) {
    beginResetModel();
    result_ = std::move(result);
    leadsTo_.clear();
    taskColumn_.reset();
    for (const SqlColumn& column : result_.columns) {
        leadsTo_.push_back(leadsTo(column));
        if (leadsTo_.back() == SqlTarget::Kind::task_id && !taskColumn_) {
            taskColumn_ = static_cast<int>(leadsTo_.size()) - 1;
        }
    }
    endResetModel();
}

const SqlValue& SqlResultModel::value(const QModelIndex& index) const {
    return result_.rows[static_cast<std::size_t>(index.row())][static_cast<std::size_t>(index.column())];
}

std::optional<SqlTarget> SqlResultModel::targetOf(const QModelIndex& index) const {
    if (!index.isValid() || index.row() >= rowCount() || index.column() >= columnCount()) {
        return std::nullopt;
    }
    const std::optional<SqlTarget::Kind> kind = leadsTo_[static_cast<std::size_t>(index.column())];
    const auto* own = std::get_if<std::int64_t>(&value(index));
    if (!kind || own == nullptr) {
        return std::nullopt;
    }
    if (kind == SqlTarget::Kind::time && taskColumn_) {
        if (const auto* task = std::get_if<std::int64_t>(&value(index.siblingAtColumn(*taskColumn_)))) {
            return SqlTarget{SqlTarget::Kind::task_id, *task};
        }
    }
    return SqlTarget{*kind, *own};
}

int SqlResultModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(result_.rows.size());
}

int SqlResultModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(result_.columns.size());
}

QVariant SqlResultModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount()) {
        return {};
    }
    const SqlValue& cell = value(index);
    const bool text = std::holds_alternative<std::string>(cell);
    switch (role) {
        case Qt::DisplayRole: return shown(cell);
        case kExportRole: {
            const QVariant raw = plain(cell);
            return raw.isValid() ? raw : QVariant::fromValue(nullptr);
        }
        case Qt::TextAlignmentRole: return static_cast<int>((text ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
        case Qt::ToolTipRole:
            return targetOf(index) ? tr("Click to go there (%1)").arg(shown(cell))
                                   : plain(cell).toString().left(kLongestShown);
        case Qt::ForegroundRole:
            if (std::holds_alternative<std::monostate>(cell)) {
                return QGuiApplication::palette().brush(QPalette::PlaceholderText);
            }
            return targetOf(index) ? QVariant(QGuiApplication::palette().brush(QPalette::Link)) : QVariant();
        case Qt::FontRole: {
            QFont font;
            font.setUnderline(true);
            return targetOf(index) ? QVariant(font) : QVariant();
        }
        default: return {};
    }
}

QVariant SqlResultModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (section < 0 || orientation == Qt::Vertical || section >= columnCount() ||
        (role != Qt::DisplayRole && role != kExportRole)) {
        return {};
    }
    return QString::fromStdString(result_.columns[static_cast<std::size_t>(section)].name);
}
}  // namespace pipescope
