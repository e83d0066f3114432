#include "gui/document/notes_file.h"

#include "base/error.h"
#include "base/library_message.h"
#include "base/text_file.h"
#include "gui/style/save_file.h"
#include "trace/store/json_nesting.h"

#include <nlohmann/json.hpp>

#include <QFile>
#include <QFileInfo>

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
namespace {
constexpr const char* kNotesFormat = "pipescope.notes";
constexpr int kNotesVersion = 1;
constexpr std::uint64_t kLargestNotes = 64 << 20;  // bytes; larger files are not notes of people

std::string quotedPath(const QString& path) {
    return "'" + path.toStdString() + "'";
}

std::int64_t timeOf(const nlohmann::json& object, const char* key) {
    const nlohmann::json& time = object.at(key);
    if (!time.is_number_integer()) {
        throw Error("a note has the " + std::string(key) + " " + time.dump() + ", but must have a whole number of ns");
    }
    constexpr double kMost = 0x1p62;  // as times of traces; a length is then representable
    if (std::abs(time.get<double>()) >= kMost) {
        throw Error("a note has the " + std::string(key) + " " + time.dump() +
                    ", but a time is between -2^62 and 2^62 ns, which is 146 years");
    }
    return time.get<std::int64_t>();
}

TimeMark noteOf(const nlohmann::json& object) {
    const std::int64_t start = timeOf(object, "start_ns");
    const std::int64_t end = timeOf(object, "end_ns");
    if (end <= start) {
        throw Error("a note ends at " + std::to_string(end) + " ns, but starts at " + std::to_string(start) + " ns");
    }
    return {start, QString::fromStdString(object.at("text").get<std::string>()), end - start};
}

QueryTrack queryTrackOf(const nlohmann::json& object) {
    return {QString::fromStdString(object.at("name").get<std::string>()),
            QString::fromStdString(object.at("sql").get<std::string>())};
}

/// The content of the file.
struct NotesFile {
    std::vector<TimeMark> notes;
    std::vector<QueryTrack> tracks;
};

NotesFile readFile(const QString& trace) {
    const QString path = notesPathOf(trace);
    if (!QFile::exists(path)) {
        return {};
    }
    // Nobody named this file: a link to a device or a pipe in somebody's archive would be read without end.
    const std::string text = read_text_file(
        path.toStdString(), {"a file of notes", "move it away to start anew; until then new notes are not saved",
                             TextFile::Kind::file, kLargestNotes});
    const std::string kept = "; it is kept as it is, and new notes are not saved; move it away to start anew";
    try {
        if (nests_too_deep(text)) {
            throw Error("it nests deeper than " + std::to_string(kMostJsonNesting) + " levels");
        }
        const nlohmann::json notes = nlohmann::json::parse(text.begin(), text.end());
        if (!notes.is_object() || notes.value("format", "") != kNotesFormat) {
            throw Error("it is not of the format " + std::string(kNotesFormat));
        }
        if (notes.at("version").get<int>() != kNotesVersion) {
            throw Error("its version is " + notes.at("version").dump() + ", and this viewer reads version " +
                        std::to_string(kNotesVersion));
        }
        NotesFile read;
        for (const nlohmann::json& each : notes.at("notes")) {
            read.notes.push_back(noteOf(each));
        }
        for (const nlohmann::json& each : notes.value("tracks", nlohmann::json::array())) {
            read.tracks.push_back(queryTrackOf(each));
        }
        std::stable_sort(read.notes.begin(), read.notes.end(),
                         [](const TimeMark& a, const TimeMark& b) { return a.time < b.time; });
        return read;
    } catch (const std::exception& error) {
        throw Error(quotedPath(path) + " has no readable notes: " + std::string(without_error_number(error.what())) +
                    kept);
    }
}

void writeFile(const QString& trace, const NotesFile& content) {
    const QString path = notesPathOf(trace);
    if (content.notes.empty() && content.tracks.empty()) {
        if (QFile::exists(path) && !QFile::remove(path)) {
            throw Error(quotedPath(path) + " cannot be removed; the notes stay in it");
        }
        return;
    }
    nlohmann::ordered_json object{{"format", kNotesFormat},
                                  {"version", kNotesVersion},
                                  {"trace", QFileInfo(trace).fileName().toStdString()},
                                  {"notes", nlohmann::ordered_json::array()}};
    for (const TimeMark& note : content.notes) {
        object["notes"].push_back(
            {{"start_ns", note.time}, {"end_ns", note.time + note.length}, {"text", note.note.toStdString()}});
    }
    for (const QueryTrack& track : content.tracks) {
        object["tracks"].push_back({{"name", track.name.toStdString()}, {"sql", track.sql.toStdString()}});
    }
    saveFile(path, QByteArray::fromStdString(object.dump(2) + "\n"),
             "make its folder writable; until then the notes last as long as the viewer is open");
}
}  // namespace

QString notesPathOf(const QString& trace) {
    return trace + QStringLiteral(".notes.json");
}

std::vector<TimeMark> readNotes(const QString& trace) {
    return readFile(trace).notes;
}

std::vector<QueryTrack> readTracks(const QString& trace) {
    return readFile(trace).tracks;
}

MarksChange changeBetween(const std::vector<TimeMark>& before, const std::vector<TimeMark>& after) {
    const auto without = [](std::vector<TimeMark> marks, const std::vector<TimeMark>& others) {
        return withChange(std::move(marks), {{}, others});
    };
    return {without(after, before), without(before, after)};
}

std::vector<TimeMark> withChange(std::vector<TimeMark> marks, const MarksChange& change) {
    for (const TimeMark& mark : change.removed) {
        if (const auto found = std::find(marks.begin(), marks.end(), mark); found != marks.end()) {
            marks.erase(found);
        }
    }
    marks.insert(marks.end(), change.added.begin(), change.added.end());
    return marks;
}

void writeNotes(const QString& trace, const std::vector<TimeMark>& notes) {
    writeFile(trace, {notes, readTracks(trace)});  // throws rather than replace what is not ours
}

void writeTracks(const QString& trace, const std::vector<QueryTrack>& tracks) {
    writeFile(trace, {readNotes(trace), tracks});
}

std::vector<TimeMark> changeNotes(const QString& trace, const std::vector<TimeMark>& before,
                                  const std::vector<TimeMark>& after) {
    const std::vector<TimeMark> now = QFile::exists(notesPathOf(trace)) ? readNotes(trace) : before;
    std::vector<TimeMark> notes = withChange(now, changeBetween(before, after));
    std::stable_sort(notes.begin(), notes.end(), [](const TimeMark& a, const TimeMark& b) { return a.time < b.time; });
    writeNotes(trace, notes);
    return notes;
}
}  // namespace pipescope
