#include "base/error.h"
#include "cluster/hugging_face_config.h"
#include "cluster/language_model.h"
#include "hardware/cluster.h"
#include "hardware/links_file.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pipescope;
    static const std::vector<DeviceType> catalogue = device_catalogue();
    const std::string_view text{reinterpret_cast<const char*>(data), size};
    try {
        parse_hugging_face_config(text);
    } catch (const Error&) {
    }
    try {
        const bool names_a_file = text.starts_with('h') || text.starts_with('H');  // hf:
        const LanguageModel model = parse_language_model(names_a_file ? "gpt:" : text);
        if (!(parse_language_model(to_string(model)) == model) || !(step_flops(model, 1) > 0)) {
            std::abort();
        }
    } catch (const Error&) {
    }
    try {
        parse_links(text);
    } catch (const Error&) {
    }
    try {
        const Cluster cluster = parse_cluster(text, catalogue);
        for (const NodeGroup& group : cluster.groups) {
            if (!(all_reduce_ns(ring_link(cluster, group, {group.devices(), 1, group.devices()}), group.devices(),
                                1e9) >= 0) ||
                !(all_to_all_ns(cluster, group, {group.devices(), 1, group.devices()}, 1e9) >= 0)) {
                std::abort();
            }
        }
    } catch (const Error&) {
        return 0;
    }
    return 0;
}
