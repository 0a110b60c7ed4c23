#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace redpoll::bench {
namespace {

// The expected values are numpy.percentile's.
TEST(Statistics, PercentilesLieOnTheLineBetweenSamples) {
  const Percentiles figures = percentiles_of({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(figures.p50, 2.5);
  EXPECT_DOUBLE_EQ(figures.p90, 3.7);
  EXPECT_DOUBLE_EQ(figures.p99, 3.97);
  EXPECT_DOUBLE_EQ(figures.max, 4);
}

TEST(Statistics, PercentilesOfAHundredAndOneSamplesAreSamples) {
  std::vector<double> samples;
  for (int i = 100; i >= 0; --i) samples.push_back(i * 10);
  const Percentiles figures = percentiles_of(samples);
  EXPECT_DOUBLE_EQ(figures.p50, 500);
  EXPECT_DOUBLE_EQ(figures.p90, 900);
  EXPECT_DOUBLE_EQ(figures.p99, 990);
}

TEST(Statistics, OneSampleIsEveryPercentile) {
  const Percentiles figures = percentiles_of({7});
  EXPECT_EQ(figures.p50, 7);
  EXPECT_EQ(figures.p99, 7);
  EXPECT_EQ(figures.max, 7);
}

TEST(Statistics, ASpreadIsMedianLeastAndMost) {
  const Spread odd = spread_of({9, 1, 4});
  EXPECT_EQ(odd.median, 4);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 9);
  EXPECT_EQ(spread_of({1, 2}).median, 1.5);
}

TEST(Statistics, NoSamplesGiveNoNumber) {
  EXPECT_TRUE(std::isnan(spread_of({}).median));
  EXPECT_TRUE(std::isnan(percentiles_of({}).p99));
}

}  // namespace
}  // namespace redpoll::bench
