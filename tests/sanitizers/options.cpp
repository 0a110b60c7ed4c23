// What the sanitizers of test programs, and of the program when tests start it, are told, however they are started.
// libmlx, the BLAS that its stock operations call on threads of its own, and the Rust text library come uninstrumented:
// their locks, atomics and lifetimes are invisible to them, so reports that pass through one of them cannot be judged
// and are left out.

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the runtimes look for these names.
extern "C" {

// Containers that libmlx grew are not annotated, which looks like an overflow when our code reads them.
const char* __asan_default_options() { return "detect_container_overflow=0:detect_stack_use_after_return=1"; }

// libmlx keeps its schedulers, allocators and caches until the process ends.
const char* __lsan_default_suppressions() { return "leak:libmlx.so\n"; }
const char* __lsan_default_options() { return "print_suppressions=0"; }

const char* __ubsan_default_options() { return "print_stacktrace=1"; }

const char* __tsan_default_options() { return "second_deadlock_stack=1"; }
// Inlining leaves only frames of Rust's own library in some stacks: the copy of a string from tokenizers' cache, say,
// which a read-write lock guards. The state of a promise of libmlx is destroyed by the standard library's functions,
// instrumented ones that come with our code: only its module's name shows whose it is. And a function of libmlx whose
// last act is to unlock jumps there, mlx::core::reset_peak_memory is one: the unlocking seems to be that of its caller.
const char* __tsan_default_suppressions() {
  return "called_from_lib:libmlx.so\ncalled_from_lib:libblas\nrace:libblas\nrace:libmlx.so\nrace:mlx::core::\n"
         "mutex:mlx::core::\n"
         "race:tokenizers::\nrace:minijinja::\nrace:redpoll_text::\nrace:library/alloc/src/\nrace:library/core/src/\n";
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
