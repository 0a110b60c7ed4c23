// How many threads kernels should use.
#include "kernels/cpu/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

namespace redpoll::kernels::cpu {
namespace {

namespace fs = std::filesystem;

TEST(TopologyTest, ReadsAControlGroupsQuota) {
  EXPECT_EQ(cores_of_quota("max 100000"), 0);
  EXPECT_EQ(cores_of_quota("200000 100000"), 2);
  EXPECT_EQ(cores_of_quota("150000 100000"), 2);
  EXPECT_EQ(cores_of_quota("50000 100000"), 1);
  for (const char* broken : {"", "max", "100000", "100000 ", "-1 100000", "100000 0", "x y"}) {
    EXPECT_EQ(cores_of_quota(broken), 0) << broken;
  }
}

TEST(TopologyTest, FindsAtLeastOneCoreAndNoMoreThanTheMachineHas) {
  EXPECT_GE(num_usable_cores(), 1);
  EXPECT_LE(num_usable_cores(), static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
}

/// A tree of control groups in a folder of its own.
class ControlGroups {
 public:
  ControlGroups() { fs::create_directories(root_); }
  ~ControlGroups() { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << '\n';
  }
  [[nodiscard]] const fs::path& root() const { return root_; }

 private:
  fs::path root_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST(TopologyTest, TheLeastQuotaOfAllGroupsAboveCounts) {
  ControlGroups groups;
  groups.write("a/cpu.max", "300000 100000");
  groups.write("a/b/cpu.max", "max 100000");
  EXPECT_EQ(cores_of_groups(groups.root(), "0::/a/b\n"), 3);
  groups.write("a/b/cpu.max", "150000 100000");
  EXPECT_EQ(cores_of_groups(groups.root(), "0::/a/b\n"), 2);
  groups.write("cpu.max", "50000 100000");
  EXPECT_EQ(cores_of_groups(groups.root(), "0::/a/b\n"), 1);
  EXPECT_EQ(cores_of_groups(groups.root(), "0::/\n"), 1);
}

TEST(TopologyTest, ReadsGroupsOfVersionOneToo) {
  ControlGroups groups;
  groups.write("cpu,cpuacct/jobs/cpu.cfs_quota_us", "250000");
  groups.write("cpu,cpuacct/jobs/cpu.cfs_period_us", "100000");
  const std::string membership = "4:memory:/jobs\n3:cpu,cpuacct:/jobs\n0::/\n";
  EXPECT_EQ(cores_of_groups(groups.root(), membership), 3);
  groups.write("cpu,cpuacct/jobs/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(cores_of_groups(groups.root(), membership), 0);
}

TEST(TopologyTest, GroupsThatCannotBeReadLimitNothing) {
  ControlGroups groups;
  for (const char* membership : {"", "\n", "0", "0::", "0::/gone/away", "1:cpuset:/", "x:y:z:w", "::::"}) {
    EXPECT_EQ(cores_of_groups(groups.root(), membership), 0) << membership;
  }
}

}  // namespace
}  // namespace redpoll::kernels::cpu
