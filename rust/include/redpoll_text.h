/* The C interface of the text library (Rust: tokenizers, minijinja, regex). Only src/text/ includes it.
 *
 * Every function catches panics. A function that can fail returns RpStatus; on anything but RP_OK its last argument
 * holds a message for people instead of a result. Both are buffers that the caller frees. Strings are UTF-8 with a
 * length, never NUL-terminated; a length of 0 allows any pointer. Objects are immutable: const functions may be called
 * from several threads at once. */
#ifndef REDPOLL_TEXT_H
#define REDPOLL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum RpStatus {
  RP_OK = 0,
  RP_INVALID = 1,     /* the input is at fault */
  RP_UNSUPPORTED = 2, /* well-formed, but of a kind this library does not handle */
  RP_RAISED = 3,      /* a template called raise_exception; the message is the template's */
  RP_PANIC = 4        /* a fault of the library */
} RpStatus;

/* Bytes owned by the caller; free with rp_buffer_free. Functions overwrite it without freeing what was there. */
typedef struct RpBuffer {
  uint8_t *data;
  size_t size;
} RpBuffer;
void rp_buffer_free(RpBuffer buffer);

/* Numbers owned by the caller; free with rp_ids_free. */
typedef struct RpIds {
  uint32_t *data;
  size_t size;
} RpIds;
void rp_ids_free(RpIds ids);

/* ---- Tokenizers */
typedef struct RpTokenizer RpTokenizer;

/* From the text of a tokenizer.json; its truncation and padding are ignored. */
RpStatus rp_tokenizer_new(const uint8_t *json, size_t size, RpTokenizer **tokenizer, RpBuffer *message);
void rp_tokenizer_free(RpTokenizer *tokenizer);

RpStatus rp_tokenizer_encode(const RpTokenizer *tokenizer, const uint8_t *text, size_t size, bool add_special_tokens,
                             RpIds *ids, RpBuffer *message);
/* The same ids, and for each how many characters (not bytes) of the text come before it. */
RpStatus rp_tokenizer_encode_with_begins(const RpTokenizer *tokenizer, const uint8_t *text, size_t size,
                                         bool add_special_tokens, RpIds *ids, RpIds *begins, RpBuffer *message);
/* The id of a token by its spelling in the file, or -1. */
int64_t rp_tokenizer_token_to_id(const RpTokenizer *tokenizer, const uint8_t *token, size_t size);

enum { RP_TOKEN_KNOWN = 1, RP_TOKEN_SPECIAL = 2 };

/* What decoding needs, for ids 0 to flags.size - 1: token i adds bytes [offsets[i], offsets[i + 1]). */
typedef struct RpTokenTable {
  RpBuffer bytes;
  RpIds offsets;             /* flags.size + 1 numbers */
  RpBuffer flags;            /* RP_TOKEN_ bits; 0: no such id */
  bool strips_leading_space; /* one space at the start of a whole text is not part of it */
  uint32_t max_bytes_per_token; /* of the known bytes of a text, that one token can stand for; 0: there is no bound */
  RpBuffer known_bytes; /* 256 times 0 or 1, or nothing without a bound: others may vanish when a text is encoded */
} RpTokenTable;
/* RP_UNSUPPORTED if the text of a token depends on its neighbours, as WordPiece's does. */
RpStatus rp_tokenizer_table(const RpTokenizer *tokenizer, RpTokenTable *table, RpBuffer *message);

/* ---- Chat templates */
typedef struct RpTemplate RpTemplate;

RpStatus rp_template_new(const uint8_t *source, size_t size, RpTemplate **chat_template, RpBuffer *message);
void rp_template_free(RpTemplate *chat_template);

/* `context` is the text of a JSON object; `local_time` is seconds since 1970 plus the offset of the local time zone. */
RpStatus rp_template_render(const RpTemplate *chat_template, const uint8_t *context, size_t size, int64_t local_time,
                            RpBuffer *text_or_message);

/* ---- Patterns of lines */
typedef struct RpLinePattern RpLinePattern;

/* A regular expression, as Rust's regex crate writes them. */
RpStatus rp_line_pattern_new(const uint8_t *pattern, size_t size, RpLinePattern **line_pattern, RpBuffer *message);
void rp_line_pattern_free(RpLinePattern *line_pattern);
/* Whether it matches all of `line`, in time that is linear in its length. */
RpStatus rp_line_pattern_matches(const RpLinePattern *line_pattern, const uint8_t *line, size_t size, bool *matches,
                                 RpBuffer *message);

/* ---- About the library */
/* Lines of "name version". */
RpStatus rp_versions(RpBuffer *text);

#ifdef __cplusplus
}
#endif

#endif
