#include "gui/document/task_query.h"

#include <QStringList>

#include <algorithm>

namespace pipescope {
namespace {
constexpr std::uint32_t bit(TaskKind kind) {
    return std::uint32_t{1} << static_cast<unsigned>(kind);
}

struct KindName {
    const char* name;
    std::uint32_t kinds;
};
// "copy" and "skip" mean both directions; single letters are those on the bars.
constexpr KindName kKindNames[] = {
    {"f", bit(TaskKind::forward)},
    {"forward", bit(TaskKind::forward)},
    {"r", bit(TaskKind::recompute)},
    {"recompute", bit(TaskKind::recompute)},
    {"b", bit(TaskKind::backward)},
    {"backward", bit(TaskKind::backward)},
    {"i", bit(TaskKind::backward)},
    {"w", bit(TaskKind::backward_weight)},
    {"backward_weight", bit(TaskKind::backward_weight)},
    {"copy", bit(TaskKind::copy_forward) | bit(TaskKind::copy_backward)},
    {"copy_forward", bit(TaskKind::copy_forward)},
    {"copy_backward", bit(TaskKind::copy_backward)},
    {"skip", bit(TaskKind::skip_forward) | bit(TaskKind::skip_backward)},
    {"skip_forward", bit(TaskKind::skip_forward)},
    {"skip_backward", bit(TaskKind::skip_backward)},
    {"loss", bit(TaskKind::loss)},
    {"optimizer", bit(TaskKind::optimizer)},
    {"all_reduce", bit(TaskKind::all_reduce)},
    {"shared", bit(TaskKind::shared_forward) | bit(TaskKind::shared_backward) | bit(TaskKind::shared_sum)},
    {"shared_forward", bit(TaskKind::shared_forward)},
    {"shared_backward", bit(TaskKind::shared_backward)},
    {"shared_sum", bit(TaskKind::shared_sum)},
};

std::optional<std::uint32_t> kindsNamed(const QString& word) {
    for (const KindName& each : kKindNames) {
        if (word == QLatin1String(each.name)) {
            return each.kinds;
        }
    }
    // The beginning of a name is enough if it is longer than two letters.
    std::uint32_t kinds = 0;
    for (const KindName& each : kKindNames) {
        if (word.size() > 2 && QLatin1String(each.name).startsWith(word)) {
            kinds |= each.kinds;
        }
    }
    return kinds != 0 ? std::optional(kinds) : std::nullopt;
}

/// Reads the words; each step takes a word, or a name and its number.
class Reader {
public:
    Reader(const QString& text, const TraceDocument& document) : document_(document) {
        // "F3", "5F3", "mb4" and "(2, 1)" may also be written without spaces.
        QString spaced;
        for (const QChar each : text.toLower()) {
            const bool separates = each == QLatin1Char('(') || each == QLatin1Char(')') || each == QLatin1Char(',') ||
                                   each == QLatin1Char('#');
            const bool numberBegins =
                each.isDigit() && !spaced.isEmpty() && spaced.back().isLetter() && !inLayer(spaced);
            spaced += numberBegins ? QStringLiteral(" ") : QString();
            spaced += separates && !inLayer(spaced) ? QLatin1Char(' ') : each;
        }
        for (const QString& word : spaced.split(QLatin1Char(' '), Qt::SkipEmptyParts)) {
            if (namesPartition(word) && (words_.isEmpty() || words_.back() != QLatin1String("layer"))) {
                words_ << QStringLiteral("p") << word.chopped(1) << word.last(1);
            } else {
                words_ << word;
            }
        }
    }

    std::optional<TaskQuery> read() {
        while (next_ < words_.size()) {
            if (!readOne()) {
                return std::nullopt;
            }
        }
        return query_;
    }

private:
    /// True for the "5f" of 5F3.
    static bool namesPartition(const QString& word) {
        return word.size() > 1 && word.back().isLetter() &&
               std::all_of(word.begin(), word.end() - 1, [](QChar each) { return each.isDigit(); });
    }

    /// The name of a layer may contain digits.
    static bool inLayer(const QString& before) {
        return before.lastIndexOf(QLatin1String("layer ")) >= 0 &&
               before.indexOf(QLatin1Char(' '), before.lastIndexOf(QLatin1String("layer ")) + 6) < 0;
    }

    std::optional<std::int32_t> number() {
        bool ok = false;
        const int value = next_ < words_.size() ? words_[next_].toInt(&ok) : 0;
        next_ += ok ? 1 : 0;
        return ok && value >= 0 ? std::optional(value) : std::nullopt;
    }

    bool readOne() {
        const QString word = words_[next_];
        if (const auto value = number()) {
            return takeBareNumber(*value);
        }
        ++next_;
        if (word == QLatin1String("m") || word == QLatin1String("mb") || word == QLatin1String("micro-batch")) {
            return (query_.microBatch = number()).has_value();
        }
        if (word == QLatin1String("p") || word == QLatin1String("partition")) {
            const auto value = number();
            query_.partitions.assign(value ? 1 : 0, value.value_or(0));
            return value.has_value();
        }
        if (word == QLatin1String("s") || word == QLatin1String("step")) {
            return (query_.step = number()).has_value();
        }
        if (word == QLatin1String("lane")) {
            const auto value = number();
            query_.lane = value;
            return value.has_value();
        }
        if (word == QLatin1String("layer")) {
            return readLayer();
        }
        if (word == QLatin1String("of") || word == QLatin1String("on")) {
            return true;  // as in "forward of micro-batch 3 on partition 1", the form used in the details
        }
        const auto kinds = kindsNamed(word);
        if (kinds) {
            query_.keep(*kinds);
        }
        return kinds.has_value();
    }

    /// In (i, j) the micro-batch comes first, then the partition.
    bool takeBareNumber(std::int32_t value) {
        if (!query_.microBatch) {
            query_.microBatch = value;
            return true;
        }
        const bool free = query_.partitions.empty();
        query_.partitions.push_back(value);
        return free;
    }

    bool readLayer() {
        if (next_ == words_.size() || !document_.simulation || !document_.run.profile) {
            return false;
        }
        const QString name = words_[next_++];
        bool isNumber = false;
        const auto wanted = static_cast<std::size_t>(name.toUInt(&isNumber));
        const Balance& balance = document_.simulation->options.balance;
        const auto& layers = (*document_.run.profile)->layers;
        for (std::size_t layer = 0; layer < std::min(layers.size(), balance.num_layers()); ++layer) {
            const bool meant =
                isNumber ? layer == wanted : QString::fromStdString(layers[layer].name).toLower().contains(name);
            if (meant) {
                query_.partitions.push_back(
                    static_cast<std::int32_t>(balance.partition_of(LayerId{static_cast<std::int64_t>(layer)}).value()));
            }
        }
        return !query_.partitions.empty();
    }

    const TraceDocument& document_;
    QStringList words_;
    qsizetype next_ = 0;
    TaskQuery query_;
};
}  // namespace

bool TaskQuery::matches(const Slice& task) const {
    const TaskKey& key = task.key;
    return lengths.accept(task.duration().count()) && has(key.kind) && (!step || key.step == *step) &&
           (!microBatch || key.micro_batch == *microBatch) && (!lane || task.lane.value() == *lane) &&
           (partitions.empty() || std::find(partitions.begin(), partitions.end(), key.partition) != partitions.end());
}

std::optional<TaskQuery> parseTaskQuery(const QString& text, const TraceDocument& document) {
    QString words = text;
    const LengthLimits lengths = takeLengths(words);
    std::optional<TaskQuery> query = Reader(words, document).read();
    if (query) {
        query->lengths = lengths;
    }
    return query;
}
}  // namespace pipescope
