#include "gui/window/search_bar.h"

#include "base/sample_statistics.h"
#include "gui/style/arrange.h"
#include "gui/style/elided_label.h"
#include "gui/style/task_style.h"
#include "gui/timeline/minimap.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/timeline/track_view.h"
#include "gui/window/document_page.h"
#include "trace/store/sql_query.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QLocale>
#include <QToolButton>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace pipescope {
namespace {
constexpr int kTypingRest = 120;
constexpr std::size_t kMostHits = 1'000'000;

/// What a name must be: a text in quotes is the whole name, another text a part of it in any case.
class NameQuery {
public:
    explicit NameQuery(QString text) : lengths(takeLengths(text)), text_(std::move(text)) {
        isWhole_ = text_.size() > 2 && text_.startsWith(QLatin1Char('"')) && text_.endsWith(QLatin1Char('"'));
        text_ = isWhole_ ? text_.mid(1, text_.size() - 2) : text_;
    }

    bool accepts(const QString& name) const {
        return isWhole_ ? name == text_ : name.contains(text_, Qt::CaseInsensitive);
    }
    /// A condition of SQL on the expression `what`.
    QString sql(const QString& what) const {
        QString quoted = text_;
        quoted.replace(QLatin1String("'"), QLatin1String("''"));
        return isWhole_ ? QStringLiteral("%1 = '%2'").arg(what, quoted)
                        : QStringLiteral("instr(lower(%1), lower('%2')) > 0").arg(what, quoted);
    }

    /// Until the median of the name is known, every length may be wanted.
    bool mayAccept(std::int64_t length) const { return lengths.needMedian() || lengths.accept(length); }

    LengthLimits lengths;

private:
    QString text_;
    bool isWhole_ = false;
};

std::vector<FoundRange> findRanges(const QString& path, const NameQuery& query,
                                   const std::function<bool()>& cancelled) {
    SqlOptions options;
    options.cancelled = cancelled;
    const QString sql = QStringLiteral(
                            "SELECT coalesce(r.text, s.value) AS what, r.start, coalesce(r.end, r.start) "
                            "FROM NVTX_EVENTS AS r LEFT JOIN StringIds AS s ON s.id = r.textId "
                            "WHERE r.eventType IN (34, 59, 60) AND ") +
                        query.sql(QStringLiteral("what")) + QStringLiteral(" ORDER BY r.start");
    std::vector<FoundRange> found;
    for (const std::vector<SqlValue>& row : query_sql(path.toStdString(), sql.toStdString(), options).rows) {
        const auto* name = std::get_if<std::string>(&row[0]);
        const auto* start = std::get_if<std::int64_t>(&row[1]);
        const auto* end = std::get_if<std::int64_t>(&row[2]);
        if (name != nullptr && start != nullptr && end != nullptr &&
            query.mayAccept(std::max<std::int64_t>(0, *end - *start))) {
            found.push_back({QString::fromStdString(*name), {*start, std::max(*start, *end)}});
        }
    }
    return found;
}

/// Names by number; null where the query does not want the name.
std::vector<QString> wantedNames(const std::vector<std::string>& names, const NameQuery& query) {
    std::vector<QString> wanted;
    for (const std::string& each : names) {
        const QString name = QString::fromStdString(each);
        wanted.push_back(query.accepts(name) ? name : QString());
    }
    return wanted;
}

/// Ranges and counters of the threads and streams.
void findInTracks(const TrackStore& store, const NameQuery& query, const std::function<bool()>& cancelled,
                  std::vector<FoundRange>& found) {
    const std::vector<QString> names = wantedNames(store.texts, query);
    for (std::uint32_t row = 0; row < store.rows.size() && !cancelled(); ++row) {
        const TrackRow& each = store.rows[row];
        for (std::uint32_t i = 0; i < each.text.size() && found.size() < kMostHits; ++i) {
            if (!names[each.text[i]].isNull() && query.mayAccept(each.end[i] - each.start[i])) {
                found.push_back({names[each.text[i]], {each.start[i], each.end[i]}, SliceRef{row, i}});
            }
        }
    }
    for (std::size_t k = 0; k < store.counters.size() && query.lengths.acceptAll(); ++k) {
        const QString name = QString::fromStdString(store.counters[k].name());
        if (query.accepts(name)) {
            found.push_back({name, store.counters[k].range(), std::nullopt, k});
        }
    }
}

void findKernels(const KernelStore& store, const NameQuery& query, const std::function<bool()>& cancelled,
                 std::vector<FoundRange>& found) {
    const std::vector<QString> names = wantedNames(store.names(), query);
    for (std::uint32_t row = 0; row < store.slices().rows().size() && !cancelled(); ++row) {
        const StoredRow& each = store.slices().rows()[row];
        for (std::uint32_t i = 0; i < each.size() && found.size() < kMostHits; ++i) {
            const QString& name = names[store.nameNumber({row, i})];
            if (!name.isNull() && query.mayAccept(each.end[i] - each.start[i])) {
                found.push_back({name, each.range(i), std::nullopt, std::nullopt, SliceRef{row, i}});
            }
        }
    }
}

/// Leaves those whose lengths are so many medians of the same name, if that is asked for.
void compareWithMedians(const LengthLimits& limits, std::vector<FoundRange>& found) {
    if (!limits.needMedian()) {
        return;
    }
    std::unordered_map<QString, std::vector<std::int64_t>> lengths;
    for (const FoundRange& each : found) {
        lengths[each.text].push_back(each.range.length());
    }
    std::unordered_map<QString, std::int64_t> medians;
    for (auto& [name, all] : lengths) {
        medians.emplace(name, median(std::move(all)));
    }
    std::erase_if(found,
                  [&](const FoundRange& each) { return !limits.accept(each.range.length(), medians.at(each.text)); });
}

SearchHits findIn(const std::shared_ptr<const TraceDocument>& document, std::int32_t step, const QString& text,
                  const std::function<bool()>& cancelled) {
    SearchHits hits;
    if (const std::optional<TaskQuery> query = parseTaskQuery(text, *document)) {
        const Source source = document->measured ? Source::measured : Source::simulated;
        hits.tasks = TaskRows::make(document, source, step, *query, {}, cancelled);
        if (!hits.tasks) {
            return hits;  // cancelled
        }
        if (hits.tasks->size() > 0 || !document->tracks) {  // otherwise a range may have this name, such as 0F0
            return hits;
        }
        hits.tasks.reset();
    }
    const NameQuery query(text);
    if (document->tracks) {
        findInTracks(*document->tracks, query, cancelled, hits.ranges);
    }
    if (document->kernels) {
        findKernels(*document->kernels, query, cancelled, hits.ranges);
    }
    compareWithMedians(query.lengths, hits.ranges);
    std::ranges::stable_sort(hits.ranges, {}, [](const FoundRange& each) { return each.range.start; });
    if (!hits.ranges.empty()) {
        return hits;
    }
    try {  // ranges that are tasks, or of a recording that grows
        hits.ranges = findRanges(document->path, query, cancelled);
        compareWithMedians(query.lengths, hits.ranges);
    } catch (const std::exception&) {
        if (!document->tracks) {
            hits.error = SearchBar::tr("No task has this name, and this file has no ranges to search.");
        }
    }
    return hits;
}

QToolButton* addButton(QHBoxLayout& line, const QString& text, const QString& name) {
    auto* button = new QToolButton;
    button->setText(text);
    button->setToolTip(name);
    button->setAccessibleName(name);
    button->setAutoRaise(true);
    line.addWidget(button);
    return button;
}
}  // namespace

SearchBar::SearchBar(QWidget* parent)
    : QWidget(parent),
      rest_(new RestedWork(kTypingRest, *this, [this] { search(); })),
      field_(named(new QLineEdit(this), tr("Find"))),
      status_(new ElidedLabel(this)) {
    field_->setPlaceholderText(
        tr("Find a task – F3, backward 2 1, layer conv – or a range, kernel or counter by its name"));
    field_->setClearButtonEnabled(true);
    field_->installEventFilter(this);
    auto* line = new QHBoxLayout(this);
    line->setContentsMargins(8, 3, 8, 3);
    auto* label = new QLabel(tr("Find"), this);
    label->setBuddy(field_);
    line->addWidget(label);
    line->addWidget(field_, 2);
    connect(addButton(*line, QStringLiteral("▲"), tr("Previous hit")), &QToolButton::clicked, this,
            &SearchBar::previous);
    connect(addButton(*line, QStringLiteral("▼"), tr("Next hit")), &QToolButton::clicked, this, &SearchBar::next);
    connect(addButton(*line, tr("List"), tr("List the tasks that were found")), &QToolButton::clicked, this, [this] {
        const QString text = field_->text().trimmed();
        Q_EMIT listAsked(text);
    });
    line->addWidget(status_, 3);
    connect(addButton(*line, QStringLiteral("✕"), tr("Close the search")), &QToolButton::clicked, this,
            &SearchBar::close);
    connect(field_, &QLineEdit::textChanged, rest_, qOverload<>(&QTimer::start));
    hide();
}

void SearchBar::setPage(DocumentPage* page) {
    hits_ = {};
    markHits();  // no longer those of the page before
    page_ = page;
    current_.reset();
    if (page == nullptr) {
        hide();
    } else if (isVisible() && !field_->text().isEmpty()) {
        rest_->start();
    }
}

void SearchBar::start() {
    show();
    field_->setFocus();
    field_->selectAll();
}

void SearchBar::find(const QString& text) {
    start();
    field_->setText(text);
}

void SearchBar::showHits(const QString& text) {
    show();
    field_->setText(text);
}

void SearchBar::close() {
    hide();
    if (page_) {
        page_->minimap().setHits({});
    }
    Q_EMIT closed();
}

QString SearchBar::status() const {
    return status_->text();
}

void SearchBar::search() {
    job_.drop();
    hits_ = {};
    current_.reset();
    const QString text = field_->text().trimmed();
    markHits();
    if (!page_ || !page_->document() || text.isEmpty()) {
        status_->setText({});
        return;
    }
    status_->setText(tr("Searching …"));
    job_.start(
        *this,
        [document = page_->document(), step = page_->model().step(), text](const std::function<bool()>& cancelled) {
            return findIn(document, step, text, cancelled);
        },
        [this](SearchHits hits) { take(std::move(hits)); },
        [this](const QString& error) {
            SearchHits none;
            none.error = error;
            take(std::move(none));
        });
}

void SearchBar::markHits() {
    constexpr std::size_t kMostMarked = 50'000;
    if (!page_) {
        return;
    }
    std::vector<std::int64_t> times;
    for (std::size_t hit = 0; hit < std::min(hits_.size(), kMostMarked); ++hit) {
        times.push_back(startOf(hit));
    }
    page_->minimap().setHits(std::move(times));
}

void SearchBar::take(SearchHits hits) {
    hits_ = std::move(hits);
    markHits();
    if (!hits_.error.isEmpty()) {
        status_->setText(hits_.error);
    } else if (hits_.size() == 0) {
        status_->setText(tr("Nothing found"));
    } else {
        goTo(nearestInStep().value_or(firstVisible()));
    }
    Q_EMIT searched();
}

std::int64_t SearchBar::startOf(std::size_t hit) const {
    return hits_.tasks ? hits_.tasks->at(hit).slice.start.count() : hits_.ranges[hit].range.start;
}

std::size_t SearchBar::firstFrom(std::int64_t time) const {
    std::size_t first = 0;
    std::size_t count = hits_.size();
    while (count > 0) {
        const std::size_t half = count / 2;
        const bool before = startOf(first + half) < time;
        first = before ? first + half + 1 : first;
        count = before ? count - half - 1 : half;
    }
    return first;
}

std::size_t SearchBar::firstVisible() const {
    const std::size_t first = firstFrom(page_ ? page_->axis().window().start : 0);
    return first == hits_.size() ? 0 : first;
}

std::optional<std::size_t> SearchBar::nearestInStep() const {
    const TraceDocument* document = hits_.tasks ? hits_.tasks->document().get() : nullptr;
    const StepSpan* step = document != nullptr && document->measured && hits_.tasks->source() == Source::measured
                               ? document->measured->step(page_->model().step())
                               : nullptr;
    if (step == nullptr) {
        return std::nullopt;
    }
    // If steps overlap, tasks of this step run before it starts. The optimizer runs after its end.
    const TimeRange range = step->range();
    const std::int64_t left = page_->axis().window().start;
    std::optional<std::size_t> nearest;
    for (std::size_t hit = firstFrom(range.start - range.length());
         hit < hits_.size() && startOf(hit) < range.end + range.length(); ++hit) {
        if (hits_.tasks->at(hit).slice.key.step != step->step) {
            continue;
        }
        nearest = hit;
        if (startOf(hit) >= left) {
            break;
        }
    }
    return nearest;
}

void SearchBar::goTo(std::size_t hit) {
    current_ = hit;
    QString name;
    if (hits_.tasks) {
        const SliceRef slice = hits_.tasks->sliceAt(hit);
        const TaskKey key = hits_.tasks->at(hit).shown;
        name = tr("step %1: %2").arg(key.step).arg(taskName(key));
        page_->navigation().show(hits_.tasks->source(), slice);
    } else {
        const FoundRange& found = hits_.ranges[hit];
        name = found.text;
        if (found.ref) {
            page_->navigation().show(*found.ref);
            page_->axis().setCursor(found.range.start);
        } else if (found.kernel) {
            page_->navigation().showKernel(*found.kernel);
        } else if (found.counter) {
            page_->views().tracks().revealCounter(*found.counter);
        } else {
            const std::int64_t margin = found.range.length() / 2 + 1000;
            page_->axis().show({found.range.start - margin, found.range.end + margin});
            page_->axis().setCursor(found.range.start);
        }
    }
    const QLocale locale;
    status_->setText(tr("%1 of %2 · %3")
                         .arg(locale.toString(static_cast<qulonglong>(hit + 1)),
                              locale.toString(static_cast<qulonglong>(hits_.size())), name));
}

void SearchBar::move(int by) {
    if (rest_->isActive()) {
        rest_->stop();
        search();  // jumps to the first hit
        return;
    }
    if (!page_ || hits_.size() == 0 || !current_) {
        return;
    }
    const std::size_t size = hits_.size();
    goTo((*current_ + (by > 0 ? 1 : size - 1)) % size);
}

bool SearchBar::eventFilter(QObject* watched, QEvent* event) {
    if (watched == field_ && event->type() == QEvent::KeyPress) {
        const auto* key = static_cast<QKeyEvent*>(event);
        if (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) {
            move(key->modifiers() & Qt::ShiftModifier ? -1 : 1);
            return true;
        }
        if (key->key() == Qt::Key_Escape) {
            close();
            return true;
        }
    }
    return QWidget::eventFilter(watched, event);
}
}  // namespace pipescope
