/* sim.h - the simulated device: a driver below gpu/ for tests, which prove the protocol on it.
 *
 * Queues run on threads; kernels are the CPU's; faults become visible only at completion;
 * completions of different queues become visible in a seeded random order, or when the test says
 * so. KEEL_GPU=sim selects it. Functions take the number of the device; a queue is
 * named by its stream's index. Any thread may call. */
#pragma once
#include "backend/backend.h"

int kl_sim_n_devices(void); /* the value of KEEL_SIM_DEVICES; 1 when it is not set */
/* Whether KEEL_SIM_SHARED=1, which is read when a device is opened: then host and device share
 * memory. The device aborts when commands write what the host may be reading, or use memory of the
 * host that it was not given. */
bool kl_sim_shares(void);
int kl_sim_open(int index, struct kl_backend **out, struct kl_error **err);

/* ---- schedule ---- */
void kl_sim_seed(int device, uint64_t seed);
/* While a device is held, events become visible only by kl_sim_complete. Execution goes on. */
void kl_sim_hold(int device, bool hold);
/* While a device is paused, nothing executes. */
void kl_sim_pause(int device, bool pause);
/* Waits until n command buffers of the stream have executed in all, visible or not. false: the
 * device is lost. */
bool kl_sim_wait_executed(int device, int stream_index, uint64_t n);
/* Makes the next n command buffers of the stream visible, after waiting for their execution. */
void kl_sim_complete(int device, int stream_index, int n);
/* The number of command buffers of the stream that have executed so far. */
uint64_t kl_sim_executed(int device, int stream_index);
/* The number of kernels launched so far, without guard checks. kl_sim_guarded_off counts the
 * kernels that did not run because of a guard. */
uint64_t kl_sim_n_launches(int device);
uint64_t kl_sim_guarded_off(int device);

/* The number of exchanges with other processes that the devices of this one have begun. */
uint64_t kl_sim_n_exchanges(void);

/* ---- faults ---- */
/* The n-th submission from now fails (0: the next one); -1: none. */
void kl_sim_fail_submit_at(int device, int64_t n);
void kl_sim_fail_submit_random(int device, uint32_t one_in);
void kl_sim_lose(int device); /* at once; the device stays lost until kl_sim_revive */
/* The device is lost after one in `one_in` command buffers, at random; 0: after none. */
void kl_sim_lose_random(int device, uint32_t one_in);
/* Bytes of device memory; (size_t)-1: no limit. */
void kl_sim_budget(int device, size_t bytes);
size_t kl_sim_used(int device);
/* The number of blocks that host and device share at this moment. */
int kl_sim_n_shared(int device);
/* Of one launch, to test the splitting of large operations. */
void kl_sim_max_positions(int device, int64_t n);
/* Tests only: a lost device works again. Nothing may be in flight. */
void kl_sim_revive(int device);
/* Tests only: waits until no batch is left that the host has been told of; see
 * kl_gpu_until_empty. */
void kl_sim_until_empty(int device);
