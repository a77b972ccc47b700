/* The server: what its files share. */
#ifndef TVM_SRC_RPC_SERVER_H_
#define TVM_SRC_RPC_SERVER_H_

#include "rpc.h"
#include "sha256.h"

enum { KEY_ROOM = 1024, NONCE = 32, HANDSHAKE_SECONDS = 20, RETRY_SECONDS = 1 };
typedef TVMRPCServerOptions ServerOptions;

/* ---- sockets with deadlines: a peer that says nothing costs no more than that ---- */
int socket_read(int fd, void *to, size_t size, double deadline);
int socket_write(int fd, const void *from, size_t size, double deadline);
int random_bytes(unsigned char *out, size_t size);
void server_log(const ServerOptions *options, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* HMAC(secret, role, both random numbers, the key). */
void make_proof(const ServerOptions *options, const char *role, const unsigned char *client, const unsigned char *server,
                const char *key, unsigned char out[SHA256_BYTES]);

/* ---- handshake: 0, or the kind of refusal ---- */
enum { REFUSED_NOT = 0, REFUSED_SECRET, REFUSED_KEY, REFUSED_DEVICE, REFUSED_BROKEN };
typedef struct { unsigned char client[NONCE], server[NONCE]; char key[KEY_ROOM + 1]; double seconds; } Handshake;
/* The client's part up to its key, which must be `key`. */
int handshake_read(int fd, const ServerOptions *options, const char *key, Handshake *out);
/* The client's part of a handshake, as a server that calls a proxy plays it. */
int handshake_call(int fd, const ServerOptions *options, const char *name);
int handshake_answer(int fd, const ServerOptions *options, const Handshake *shaken, int refusal, const char *text);
void handshake_turn_away(int fd);

/* ---- tracker ---- */
typedef struct { int fd; double next_try; char said[256]; /* why it could not be reached */ } Tracker;
/* Offers the server under a match key; -1 while the tracker cannot be reached, and then it is tried again later. */
int tracker_offer(Tracker *tracker, const ServerOptions *options, int port, const char *match_key);
/* 1 while nobody has taken the match key, 0 when somebody has, -1 when the tracker is gone. */
int tracker_waits(Tracker *tracker, const ServerOptions *options, const char *match_key);
void tracker_close(Tracker *tracker);
/* A connection that was made within some seconds, or -1. */
int socket_connect(const char *host, int port);
/* Messages go at once, and a peer that has vanished without a word is noticed after about half a minute. */
void socket_keep_alive(int fd);

/* ---- proxy ---- */
/* The connection on which a client may come; 0, or -1 while the proxy cannot be reached. */
int proxy_call(Tracker *proxy, const ServerOptions *options);

#endif /* TVM_SRC_RPC_SERVER_H_ */
