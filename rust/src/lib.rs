//! Redpoll's text library: tokenizers and chat templates behind the C interface of include/redpoll_text.h.

mod abi;
mod about;
mod template;
mod tokenizer;
