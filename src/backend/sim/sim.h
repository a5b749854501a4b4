/* sim.h - the simulated device: a driver below gpu/ for tests, on which the protocol is proved.
 *
 * Queues run on threads; kernels are the CPU's reference kernels; faults are visible only at completion; completions of
 * different queues become visible in a seeded random order, or when the test says so. KEEL_GPU=sim (or kl_sim_use) makes it the GPU. All
 * controls take the number of the device; a queue is named by the index of its stream. Any thread may call.
 *
 * KEEL_SIM_SHARED=1, before a device is opened: it shares memory with the host. Then it aborts when commands write what the host may be reading, or
 * use memory of the host that it was not given. */
#pragma once
#include "backend/backend.h"

int kl_sim_n_devices(void); /* KEEL_SIM_DEVICES, 1 without */
bool kl_sim_shares(void);   /* KEEL_SIM_SHARED */
int kl_sim_open(int index, struct kl_backend **out, struct kl_error **err);

/* ---- schedule ---- */
void kl_sim_seed(int device, uint64_t seed);
/* While held nothing becomes visible but by kl_sim_complete; execution goes on. */
void kl_sim_hold(int device, bool hold);
/* While paused nothing executes. */
void kl_sim_pause(int device, bool pause);
/* Waits until n command buffers of the stream have executed in all (visible or not); false when the device is lost. */
bool kl_sim_wait_executed(int device, int stream_index, uint64_t n);
/* Makes the next n executed command buffers of the stream visible, waiting for their execution. */
void kl_sim_complete(int device, int stream_index, int n);
/* Executed command buffers of the stream so far. */
uint64_t kl_sim_executed(int device, int stream_index);
/* Kernels launched so far (guard checks not counted); guarded ones that did not run are counted by kl_sim_guarded_off. */
uint64_t kl_sim_n_launches(int device);
uint64_t kl_sim_guarded_off(int device);

/* ---- faults ---- */
void kl_sim_fail_submit_at(int device,
                           int64_t n); /* the n-th submission from now (0: the next); -1: none */
void kl_sim_fail_submit_random(int device, uint32_t one_in);
void kl_sim_lose(int device); /* now; the device stays lost until kl_sim_revive */
void kl_sim_lose_random(int device, uint32_t one_in); /* per command buffer */
void kl_sim_budget(int device, size_t bytes);         /* memory; (size_t)-1: no bound */
size_t kl_sim_used(int device);
/* Blocks that both sides use at this moment. */
int kl_sim_n_shared(int device);
void kl_sim_max_positions(int device, int64_t n); /* of one launch, to test splitting */
/* Tests only: a lost device works again. Nothing may be in flight. */
void kl_sim_revive(int device);
/* Tests only: until nothing is left of what the host has been told of; see kl_gpu_until_empty. */
void kl_sim_until_empty(int device);
