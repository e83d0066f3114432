#include "gui/console/sql_console.h"

#include "gui/console/sql_examples.h"
#include "gui/console/sql_highlighter.h"
#include "gui/document/query_tracks.h"
#include "gui/style/arrange.h"
#include "gui/style/elided_label.h"
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/table_export.h"

#include <QComboBox>
#include <QElapsedTimer>
#include <QFontDatabase>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QMenu>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSplitter>
#include <QTableView>

namespace pipescope {
namespace {
constexpr int kMostHistory = 50;
constexpr int kWidestColumn = 420;

/// Result of a worker.
struct Answer {
    SqlResult result;
    QString error;
    std::optional<std::size_t> position;
    std::int64_t milliseconds = 0;
};

Answer ask(const SqlConsole::FindDatabase& database, const std::string& sql, const SqlConsole::MakeTables& makeTables,
           const std::function<bool()>& cancelled) {
    Answer answer;
    QElapsedTimer timer;
    timer.start();
    SqlOptions options;
    options.cancelled = cancelled;
    try {
        if (makeTables) {
            options.tables = makeTables(sql, cancelled);
        }
        answer.result = query_sql(database().toStdString(), sql, options);
    } catch (const SqlError& error) {
        answer.error = QString::fromUtf8(error.what());
        answer.position = error.position;
    } catch (const std::exception& error) {
        answer.error = QString::fromUtf8(error.what());
    }
    answer.milliseconds = timer.elapsed();
    return answer;
}

struct FoundTask {
    std::optional<TaskKey> key;
    Source source = Source::measured;
};

FoundTask findTaskIn(const SqlConsole::FindDatabase& database, std::int64_t id) {
    try {
        const SqlResult result = query_sql(database().toStdString(),
                                           "SELECT step, kind, partition, microBatch, skip, source FROM PIPESCOPE_TASK "
                                           "WHERE id = " +
                                               std::to_string(id));
        if (result.rows.empty()) {
            return {};
        }
        const std::vector<SqlValue>& row = result.rows.front();
        const auto number = [&](std::size_t column) {
            const auto* value = std::get_if<std::int64_t>(&row[column]);
            return value != nullptr ? static_cast<std::int32_t>(*value) : -1;
        };
        const auto* kind = std::get_if<std::string>(&row[1]);
        const std::optional<TaskKind> known = kind != nullptr ? parse_task_kind(*kind) : std::nullopt;
        if (!known) {
            return {};
        }
        const bool simulated = row[5] == SqlValue(std::string("simulated"));
        return {TaskKey{number(0), *known, number(2), number(3), number(4)},
                simulated ? Source::simulated : Source::measured};
    } catch (const Error&) {
        return {};  // the file is gone; the link leads nowhere
    }
}
}  // namespace

SqlConsole::SqlConsole(QWidget* parent)
    : QWidget(parent), model_(new SqlResultModel(this)), rows_(new TableFilter(this)) {
    auto* splitter = new QSplitter(Qt::Horizontal, this);
    splitter->addWidget(createEditor());
    splitter->addWidget(createResults());
    splitter->setStretchFactor(0, 2);
    splitter->setStretchFactor(1, 3);
    splitter->setChildrenCollapsible(false);
    arrange(new QVBoxLayout(this), {4, 4, 4, 4}, -1, {splitter});
    fillExamples();
    fillHistory();
    setFile({});
}

QWidget* SqlConsole::createEditor() {
    auto* side = new QWidget(this);
    examples_ = named(new QComboBox(side), tr("Example queries"));
    past_ = named(new QComboBox(side), tr("Earlier queries"));
    for (QComboBox* box : {examples_, past_}) {
        box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
        box->setMinimumContentsLength(10);
    }
    run_ = new QPushButton(tr("&Run"), side);
    run_->setToolTip(tr("Run the query (Ctrl+Return)"));
    cancel_ = new QPushButton(tr("&Cancel"), side);
    editor_ = named(new QPlainTextEdit(side), tr("SQL query on the trace"));
    editor_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    editor_->setPlaceholderText(
        tr("SELECT … – choose an example above, or write a query; Ctrl+Return runs it, "
           "Ctrl+↑ and Ctrl+↓ recall earlier ones. Queries are read-only."));
    editor_->setTabChangesFocus(true);
    editor_->setMinimumHeight(editor_->fontMetrics().height() * 3);
    editor_->installEventFilter(this);
    highlighter_ = new SqlHighlighter(editor_->document());
    highlighter_->setDark(isDark(palette()));
    error_ = new QLabel(side);
    error_->setWordWrap(true);
    error_->setTextFormat(Qt::PlainText);
    error_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    error_->hide();
    auto* line = arrange(new QHBoxLayout, {{examples_, 1}, {past_, 1}, run_, cancel_});
    arrange(new QVBoxLayout(side), {0, 0, 0, 0}, 4, {line, {editor_, 1}, error_});
    connect(run_, &QPushButton::clicked, this, &SqlConsole::run);
    connect(cancel_, &QPushButton::clicked, this, &SqlConsole::cancel);
    connect(examples_, &QComboBox::activated, this,
            [this](int index) { setSql(examples_->itemData(index).toString()); });
    connect(past_, &QComboBox::activated, this, [this](int index) { setSql(past_->itemData(index).toString()); });
    return side;
}

QWidget* SqlConsole::createResults() {
    auto* side = new QWidget(this);
    status_ = new ElidedLabel(side);
    export_ = new QPushButton(tr("&Export…"), side);
    export_->setToolTip(tr("Write these rows as CSV or JSON"));
    table_ = named(new QTableView(side), tr("Rows of the query"));
    auto* filter = new FilterLine(*table_, tr("Filter the rows"), side);
    filter->setMaximumWidth(fontMetrics().averageCharWidth() * 30);
    connect(filter, &QLineEdit::textChanged, rows_, &TableFilter::setText);
    track_ = new QPushButton(tr("&Tracks"), side);
    track_->setToolTip(tr("Draw these rows below the timelines"));
    auto* menu = new QMenu(track_);
    track_->setMenu(menu);
    connect(menu, &QMenu::aboutToShow, this, &SqlConsole::fillTrackMenu);
    auto* line = arrange(new QHBoxLayout, {{status_, 1}, filter, track_, export_});
    rows_->setSourceModel(model_);
    table_->setModel(rows_);
    table_->verticalHeader()->hide();
    table_->verticalHeader()->setDefaultSectionSize(table_->fontMetrics().height() + 4);
    table_->setAlternatingRowColors(true);
    table_->setShowGrid(false);
    table_->setWordWrap(false);
    arrange(new QVBoxLayout(side), {0, 0, 0, 0}, 4, {line, {table_, 1}});
    connect(export_, &QPushButton::clicked, this, &SqlConsole::exportRows);
    const auto go = [this](const QModelIndex& shown) { follow(rows_->mapToSource(shown)); };
    connect(table_, &QTableView::clicked, this, go);
    connect(table_, &QTableView::activated, this, go);
    return side;
}

void SqlConsole::fillExamples() {
    examples_->setPlaceholderText(tr("Examples"));
    for (const SqlExample& example : sqlExamples()) {
        examples_->addItem(example.title, example.sql);
    }
    examples_->setCurrentIndex(-1);
}

void SqlConsole::fillHistory() {
    past_->clear();
    past_->setPlaceholderText(tr("History"));
    for (const QString& each : history_) {
        past_->addItem(each.simplified().left(80), each);
    }
    past_->setCurrentIndex(-1);
    past_->setEnabled(!history_.isEmpty());
}

void SqlConsole::setFile(const QString& path, const QString& why, FindDatabase database) {
    if (path != path_ || path.isEmpty()) {
        cancel();
        model_->setResult({});
        error_->hide();
        status_->setText(path.isEmpty() ? (why.isEmpty() ? tr("Open a trace to query it.") : why)
                                        : tr("Run a query to see rows here."));
        export_->setEnabled(false);
    }
    path_ = path;
    database_ = database ? std::move(database) : [path] { return path; };
    setRunning(running());
}

QString SqlConsole::sql() const {
    return editor_->toPlainText();
}

void SqlConsole::setSql(const QString& sql) {
    QTextCursor all(editor_->document());  // unlike setPlainText(), Ctrl+Z brings back what was there
    all.select(QTextCursor::Document);
    all.insertText(sql);
    editor_->moveCursor(QTextCursor::End);
    editor_->setFocus();
}

QString SqlConsole::error() const {
    return error_->isHidden() ? QString() : error_->text();
}

QString SqlConsole::status() const {
    return status_->text();
}

void SqlConsole::run() {
    if (path_.isEmpty() || running()) {
        return;
    }
    asked_ = sql();
    error_->hide();
    editor_->setExtraSelections({});
    setRunning(true);
    status_->setText(tr("Running …"));
    const auto work = [database = database_, sql = asked_.toStdString(), tables = makeTables_](
                          const std::function<bool()>& cancelled) { return ask(database, sql, tables, cancelled); };
    const auto take = [this](Answer answer) {
        setRunning(false);
        if (answer.error.isEmpty()) {
            remember(asked_);
            showRows(std::move(answer.result), answer.milliseconds);
        } else {
            showError(answer.error, answer.position);
        }
        Q_EMIT finished();
    };
    job_.start(*this, work, take, [take](const QString& error) {
        Answer none;
        none.error = error;
        take(std::move(none));
    });
}

void SqlConsole::setRunning(bool running) {
    run_->setEnabled(!running && !path_.isEmpty());
    cancel_->setEnabled(running);
}

void SqlConsole::showRows(SqlResult result, std::int64_t milliseconds) {
    const bool more = result.more;
    answered_ = asked_;
    model_->setResult(std::move(result));
    table_->resizeColumnsToContents();
    for (int column = 0; column < model_->columnCount(); ++column) {
        table_->setColumnWidth(column, std::min(table_->columnWidth(column), kWidestColumn));
    }
    const int rows = model_->rowCount();
    status_->setText(
        (more ? tr("The first %1 in %2 ms; there are more – add a LIMIT, or ask for less") : tr("%1 in %2 ms"))
            .arg(formatCount(rows, tr("row"), tr("rows")))
            .arg(milliseconds));
    export_->setEnabled(rows > 0);
}

void SqlConsole::showError(const QString& text, std::optional<std::size_t> byte) {
    QString where;
    if (byte) {
        // SQLite counts UTF-8 bytes, the editor UTF-16 units.
        const QByteArray before = asked_.toUtf8().left(static_cast<qsizetype>(*byte));
        const auto position = static_cast<int>(QString::fromUtf8(before).size());
        QTextCursor cursor(editor_->document());
        cursor.setPosition(std::min(position, editor_->document()->characterCount() - 1));
        where = tr("Line %1, column %2: ").arg(cursor.blockNumber() + 1).arg(cursor.positionInBlock() + 1);
        QTextEdit::ExtraSelection wrong;
        cursor.movePosition(QTextCursor::EndOfWord, QTextCursor::KeepAnchor);
        if (!cursor.hasSelection()) {
            cursor.movePosition(QTextCursor::NextCharacter, QTextCursor::KeepAnchor);
        }
        wrong.cursor = cursor;
        wrong.format.setUnderlineStyle(QTextCharFormat::SpellCheckUnderline);
        wrong.format.setUnderlineColor(Qt::red);
        wrong.format.setBackground(QColor(213, 94, 0, 60));
        editor_->setExtraSelections({wrong});
    }
    error_->setText(tr("⚠ %1%2").arg(where, text));
    error_->setAccessibleName(tr("Query error"));
    error_->show();
    status_->setText(tr("The query failed."));
    model_->setResult({});  // rows of an earlier query would pass for its answer
    export_->setEnabled(false);
}

void SqlConsole::setHistory(const QStringList& queries) {
    history_ = queries.mid(0, kMostHistory);
    historyPosition_ = -1;
    fillHistory();
}

void SqlConsole::remember(const QString& sql) {
    history_.removeAll(sql);
    history_.prepend(sql);
    setHistory(history_);
    Q_EMIT historyChanged();
}

void SqlConsole::walkHistory(int by) {
    const int next = std::clamp(historyPosition_ + by, -1, static_cast<int>(history_.size()) - 1);
    if (historyPosition_ < 0) {
        draft_ = sql();
    }
    if (next != historyPosition_) {
        setSql(next < 0 ? draft_ : history_[next]);
    }
    historyPosition_ = next;
}

void SqlConsole::follow(const QModelIndex& index) {
    const std::optional<SqlTarget> target = model_->targetOf(index);
    if (!target) {
        return;
    }
    switch (target->kind) {
        case SqlTarget::Kind::time: Q_EMIT timePicked(target->value); break;
        case SqlTarget::Kind::task_id: findTask(target->value); break;
        case SqlTarget::Kind::task_name:
            if (const std::optional<TaskKey> key = unpack(static_cast<std::uint64_t>(target->value))) {
                Q_EMIT taskPicked(Source::measured, *key);
            }
            break;
    }
}

void SqlConsole::findTask(std::int64_t id) {
    runInPool(
        *this, [database = database_, id] { return findTaskIn(database, id); },
        [this](const FoundTask& found) {
            if (found.key) {
                Q_EMIT taskPicked(found.source, *found.key);
            }
        },
        [this](const QString& error) { showError(error, std::nullopt); });
}

void SqlConsole::fillTrackMenu() {
    QMenu& menu = *track_->menu();
    menu.clear();
    const std::vector<SqlColumn>& columns = model_->result().columns;
    const QString why = columns.empty() ? tr("Run a query first.") : whyNoTrack(columns);
    QAction* add = menu.addAction(tr("Show these rows as a track…"), this, [this] { Q_EMIT trackAsked(answered_); });
    add->setEnabled(why.isEmpty());
    if (!why.isEmpty()) {
        menu.addAction(why)->setEnabled(false);
    }
    const QStringList names = trackNames_ ? trackNames_() : QStringList();
    if (!names.isEmpty()) {
        menu.addSeparator();
    }
    for (const QString& name : names) {
        menu.addAction(tr("Remove the track “%1”").arg(QString(name).replace(QLatin1Char('&'), QLatin1String("&&"))),
                       this, [this, name] { Q_EMIT trackRemoved(name); });
    }
}

void SqlConsole::exportRows() {
    const QString error = askAndSaveTable(*this, tr("Export the rows"), tr("query.csv"), *rows_);
    if (!error.isEmpty()) {
        showError(error, std::nullopt);
    }
}

void SqlConsole::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange && highlighter_ != nullptr) {
        highlighter_->setDark(isDark(palette()));
    }
}

bool SqlConsole::eventFilter(QObject* watched, QEvent* event) {
    if (watched == editor_ && event->type() == QEvent::KeyPress) {
        const auto* key = static_cast<QKeyEvent*>(event);
        const bool control = key->modifiers() & Qt::ControlModifier;
        if (control && (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter)) {
            run();
            return true;
        }
        if (key->key() == Qt::Key_Escape) {
            cancel();  // a query that runs; the text stays
            return true;
        }
        if (control && (key->key() == Qt::Key_Up || key->key() == Qt::Key_Down)) {
            walkHistory(key->key() == Qt::Key_Up ? 1 : -1);
            return true;
        }
    }
    return QWidget::eventFilter(watched, event);
}
}  // namespace pipescope
