//! Redpoll's text library: tokenizers, chat templates and patterns of lines behind the C interface of include/redpoll_text.h.

mod abi;
mod about;
mod line_pattern;
mod template;
mod tokenizer;
