// The safetensors format: what is written is read again, by Python too, and damaged files are refused.

#include "save/safetensors.h"

#include "save/save_error.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>

#include <bit>
#include <cstring>
#include <numeric>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

TensorToWrite tensor(const std::string& name, const std::string& dtype, const std::vector<std::int64_t>& shape,
                     const std::string& bytes) {
    const auto kept = std::make_shared<const std::string>(bytes);
    return {name, dtype, shape, [kept] { return std::shared_ptr<const void>(kept, kept->data()); }};
}

std::string bytes_of_file(const SafetensorsFile& file, std::size_t k) {
    const StoredTensor& stored = file.header().tensors.at(k);
    std::string bytes(stored.end - stored.begin, '\0');
    file.read(stored, std::as_writable_bytes(std::span(bytes)));
    return bytes;
}

/// A file with this header, and as many bytes of tensors.
void write_file(const std::filesystem::path& path, const std::string& header, std::size_t data_bytes) {
    std::string length(8, '\0');
    const auto size = static_cast<std::uint64_t>(header.size());
    std::memcpy(length.data(), &size, sizeof size);
    write_text(path, length + header + std::string(data_bytes, 'x'));
}

TEST(Safetensors, GivesBackWhatWasWritten) {
    const TemporaryFolder folder;
    write_safetensors(folder / "a.safetensors",
                      {tensor("flag", "BOOL", {3}, "abc"), tensor("weight", "F32", {1, 2}, "12345678"),
                       tensor("nothing", "F64", {0, 4}, ""), tensor("step", "I64", {}, "87654321")},
                      {{"format", "pt"}});
    const SafetensorsFile file(folder / "a.safetensors");
    const std::vector<StoredTensor>& tensors = file.header().tensors;
    ASSERT_EQ(tensors.size(), 4U);
    EXPECT_EQ(tensors[0], (StoredTensor{"nothing", "F64", {0, 4}, 0, 0}));
    EXPECT_EQ(tensors[1], (StoredTensor{"step", "I64", {}, 0, 8}));
    EXPECT_EQ(tensors[2], (StoredTensor{"weight", "F32", {1, 2}, 8, 16})) << "larger elements come first";
    EXPECT_EQ(tensors[3], (StoredTensor{"flag", "BOOL", {3}, 16, 19}));
    EXPECT_EQ(bytes_of_file(file, 1), "87654321");
    EXPECT_EQ(bytes_of_file(file, 3), "abc");
    EXPECT_EQ(file.header().metadata.at("format"), "pt");
}

TEST(Safetensors, HoldsNoTensorsToo) {
    const TemporaryFolder folder;
    write_safetensors(folder / "a.safetensors", {}, {});
    EXPECT_TRUE(SafetensorsFile(folder / "a.safetensors").header().tensors.empty());
}

// The format as another program reads it, with Python's standard library only.
TEST(Safetensors, IsReadByPython) {
    const TemporaryFolder folder;
    const std::array<float, 2> weights = {1.5F, -2.0F};
    const std::array<std::int64_t, 1> step = {-7};
    write_safetensors(folder / "a.safetensors",
                      {tensor("weight", "F32", {2, 1}, std::string(reinterpret_cast<const char*>(weights.data()), 8)),
                       tensor("step", "I64", {}, std::string(reinterpret_cast<const char*>(step.data()), 8)),
                       tensor("\"odd\\name\xc3\xa9", "U8", {1}, "\x05")},
                      {{"format", "pt"}});
    write_text(folder / "read.py", R"(
import json, struct, sys
data = open(sys.argv[1], "rb").read()
(length,) = struct.unpack("<Q", data[:8])
assert length % 8 == 0 and data[8:9] == b"{", length
header = json.loads(data[8:8 + length].decode("utf-8"))
assert header.pop("__metadata__") == {"format": "pt"}
rest = data[8 + length:]
ends = sorted(entry["data_offsets"] for entry in header.values())
assert [begin for begin, _ in ends] == [0] + [end for _, end in ends][:-1] and ends[-1][1] == len(rest), ends
def values(name, code):
    begin, end = header[name]["data_offsets"]
    return [value for value, in struct.iter_unpack("<" + code, rest[begin:end])]
assert header["weight"]["dtype"] == "F32" and header["weight"]["shape"] == [2, 1]
assert values("weight", "f") == [1.5, -2.0]
assert header["step"]["shape"] == [] and values("step", "q") == [-7]
assert values('"odd\\nameé', "B") == [5]
)");
    const std::string line =
        "'" PIPESCOPE_PYTHON "' '" + (folder / "read.py").string() + "' '" + (folder / "a.safetensors").string() + "'";
    EXPECT_EQ(std::system(line.c_str()), 0);
}

TEST(Safetensors, IsNotWrittenOverAFileNorHalf) {
    const TemporaryFolder folder;
    write_text(folder / "a.safetensors", "mine");
    EXPECT_THAT(thrown<SaveError>([&] { write_safetensors(folder / "a.safetensors", {}, {}); }),
                AllOf(HasSubstr("a.safetensors cannot be made"), HasSubstr("File exists")));
    EXPECT_EQ(read_text(folder / "a.safetensors"), "mine");
    TensorToWrite broken = tensor("a", "U8", {1}, "a");
    broken.data = []() -> std::shared_ptr<const void> { throw std::runtime_error("no bytes"); };
    EXPECT_THROW(write_safetensors(folder / "b.safetensors", {broken}, {}), std::runtime_error);
    EXPECT_FALSE(std::filesystem::exists(folder / "b.safetensors"));
    EXPECT_THAT(thrown<SaveError>([&] { write_safetensors("/dev/full/a.safetensors", {}, {}); }),
                HasSubstr("cannot be made"));
}

TEST(Safetensors, RefusesToWriteWhatCannotBeRead) {
    const TemporaryFolder folder;
    const auto refuses = [&](const TensorToWrite& a, const TensorToWrite& b, const std::string& why) {
        EXPECT_THAT(thrown<SaveError>([&] {
                        write_safetensors(folder / "a.safetensors", {a, b}, {});
                    }),
                    HasSubstr(why));
    };
    refuses(tensor("a", "U8", {1}, "a"), tensor("a", "U8", {1}, "b"), "two tensors are named \"a\"");
    refuses(tensor("a", "U8", {1}, "a"), tensor("__metadata__", "U8", {1}, "b"), "__metadata__");
    refuses(tensor("a", "U8", {1}, "a"), tensor("b", "C64", {1}, "12345678"), "its dtype is \"C64\"");
    refuses(tensor("a", "U8", {1}, "a"), tensor("\xff", "U8", {1}, "b"), "not UTF-8");
}

struct DamagedFile {
    std::string header;
    std::size_t data_bytes;
    std::string fault;
};

TEST(Safetensors, RefusesDamagedHeaders) {
    const std::string begin = R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": )";
    const std::vector<DamagedFile> files = {
        {"[]", 0, "$ is []; it must be an object"},
        {"{", 0, "is not valid JSON in line 1"},
        {"", 0, "is not valid JSON"},
        {"{\"\xff\": 1}", 0, "is not valid JSON"},
        {std::string(50, '[') + std::string(50, ']'), 0, "nests deeper than 5 levels"},
        {R"({"a": 3})", 0, "a is 3; it must be an object"},
        {R"({"a": {"shape": [], "data_offsets": [0, 0]}})", 0, "a.dtype is missing"},
        {R"({"a": {"dtype": 3, "shape": [], "data_offsets": [0, 0]}})", 0, "a.dtype is 3"},
        {R"({"a": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}})", 1, "its dtype is \"F8_E4M3\""},
        {R"({"a": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}})", 1, "a.shape[0] is -1"},
        {R"({"a": {"dtype": "U8", "shape": [1.0], "data_offsets": [0, 1]}})", 1, "a.shape[0] is 1.0"},
        {R"({"a": {"dtype": "U8", "shape": 1, "data_offsets": [0, 1]}})", 1, "a.shape is 1"},
        {R"({"a": {"dtype": "U8", "shape": [9223372036854775808], "data_offsets": [0, 0]}})", 0, "2^63 - 1"},
        {R"({"a": {"dtype": "F64", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}})", 0, "more bytes than"},
        {begin + "[0]}}", 8, "a.data_offsets is [0]"},
        {begin + "[-8, 0]}}", 8, "a.data_offsets[0] is -8"},
        {begin + "[0, 8.5]}}", 8, "a.data_offsets[1] is 8.5"},
        {begin + "[8, 0]}}", 8, "data_offsets are [8,0]"},
        {begin + "[0, 16]}}", 8, "the file has 8 bytes of tensors"},
        {begin + "[0, 4]}}", 8, "it has 4 bytes; its shape [2] of F32 needs 8"},
        {begin + "[0, 8]}}", 9, "tensors end at byte 8; the file has 9"},
        {begin + "[1, 9]}}", 9, "begins at byte 1, and the one before it ends at 0"},
        {begin + R"([0, 8]}, "b": {"dtype": "U8", "shape": [8], "data_offsets": [4, 12]}})", 12, "neither overlaps"},
        {begin + R"([0, 8]}, "a": {"dtype": "U8", "shape": [1], "data_offsets": [8, 9]}})", 9, "a appears twice"},
        {begin + R"([0, 8], "dtype": "I32"}})", 8, "a.dtype appears twice"},
        {R"({"__metadata__": {"a": 1}})", 0, "__metadata__.a is 1"},
        {R"({"__metadata__": []})", 0, "__metadata__ is []"},
    };
    const TemporaryFolder folder;
    for (const DamagedFile& each : files) {
        write_file(folder / "a.safetensors", each.header, each.data_bytes);
        EXPECT_THAT(thrown<SaveError>([&] { SafetensorsFile(folder / "a.safetensors"); }),
                    AllOf(HasSubstr("a.safetensors: "), HasSubstr(each.fault)))
            << each.header;
    }
}

TEST(Safetensors, RefusesEveryTruncatedFile) {
    const TemporaryFolder folder;
    write_safetensors(folder / "a.safetensors", {tensor("weight", "F32", {1, 2}, "12345678")}, {});
    const std::string whole = read_text(folder / "a.safetensors");
    for (std::size_t size = 0; size < whole.size(); ++size) {
        write_text(folder / "b.safetensors", whole.substr(0, size));
        EXPECT_THROW(SafetensorsFile(folder / "b.safetensors"), SaveError) << size;
    }
    write_text(folder / "b.safetensors", whole + "x");
    EXPECT_THROW(SafetensorsFile(folder / "b.safetensors"), SaveError) << "bytes that belong to no tensor";
}

TEST(Safetensors, RefusesAnAbsurdHeaderLengthWithoutAllocatingIt) {
    const TemporaryFolder folder;
    for (const std::uint64_t length : {std::uint64_t{100'000'001}, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
        std::string bytes(8, '\0');
        std::memcpy(bytes.data(), &length, sizeof length);
        write_text(folder / "a.safetensors", bytes + "{}");
        EXPECT_THAT(thrown<SaveError>([&] { SafetensorsFile(folder / "a.safetensors"); }),
                    HasSubstr(std::to_string(length)));
    }
}

TEST(Safetensors, RefusesWhatIsNoFile) {
    const TemporaryFolder folder;
    EXPECT_THAT(thrown<SaveError>([&] { SafetensorsFile(folder / "none"); }), HasSubstr("No such file"));
    EXPECT_THAT(thrown<SaveError>([&] { SafetensorsFile(folder.path()); }), HasSubstr("no regular file"));
}
}  // namespace
}  // namespace pipescope
