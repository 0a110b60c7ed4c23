// The bodies of Asio and Beast, compiled once (BOOST_ASIO_SEPARATE_COMPILATION, BOOST_BEAST_SEPARATE_COMPILATION).

// gcc 12 with sanitizers takes the storage of an empty boost::optional for an uninitialised value.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
