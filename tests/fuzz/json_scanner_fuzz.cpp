// The scanner of Chrome traces must read mended JSON as nlohmann's parser does, whatever pieces the input comes in.

#include "tests/trace/foreign/parsed_json.h"
#include "trace/foreign/json_mending.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pipescope;
    std::istringstream raw(std::string(reinterpret_cast<const char*>(data), size));
    JsonMending mending(raw);
    std::string text;
    try {
        text.assign(std::istreambuf_iterator<char>(&mending), {});
    } catch (const UnreadableJson&) {
        return 0;
    }
    const auto expected = parsed_json(text);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, text.size() + 1}) {
        if (scanned_json(text, piece) != expected) {
            std::abort();
        }
    }
    return 0;
}
