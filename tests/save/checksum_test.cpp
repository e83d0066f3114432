// Checksums of saved tensors: XXH3, as other programs compute it.

#include "save/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>

namespace pipescope {
namespace {
std::uint64_t in_pieces(const std::string& text, std::size_t piece) {
    Checksum checksum;
    for (std::size_t k = 0; k < text.size(); k += piece) {
        checksum.add(std::as_bytes(std::span(text).subspan(k, std::min(piece, text.size() - k))));
    }
    return checksum.value();
}

TEST(Checksum, IsThatOfOtherPrograms) {
    EXPECT_EQ(checksum_text(checksum_of("")), "2d06800538d394c2");  // xxhsum -H3
    EXPECT_EQ(checksum_text(checksum_of("a")), "e6c632b61e964e1f");
}

TEST(Checksum, DoesNotDependOnThePieces) {
    const std::string text(5000, 'x');
    EXPECT_EQ(in_pieces("", 1), checksum_of(""));
    for (const std::size_t piece : {1, 7, 256, 4999, 5000}) {
        EXPECT_EQ(in_pieces(text, piece), checksum_of(text)) << piece;
    }
}

TEST(Checksum, IsReadFromItsTextOnly) {
    for (const std::uint64_t checksum : {std::uint64_t{0}, std::uint64_t{0xabc}, ~std::uint64_t{0}}) {
        EXPECT_EQ(parse_checksum(checksum_text(checksum)), checksum);
    }
    for (const char* text :
         {"", "0", "00000000000000000", "000000000000000G", "000000000000000 ", "ABCDEF0123456789"}) {
        EXPECT_FALSE(parse_checksum(text)) << text;
    }
}
}  // namespace
}  // namespace pipescope
