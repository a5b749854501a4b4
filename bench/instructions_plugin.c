/* instructions_plugin.c - a plugin of qemu-user that counts the instructions that a program
 * executes, on all its threads together, and prints the count at its end. Debian's package brings
 * no header of qemu's: what is used is declared here as its documentation says ("QEMU TCG
 * Plugins"). */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_info;
enum op { INLINE_ADD_U64 };
typedef void translated_fn(plugin_id id, struct qemu_plugin_tb *block);
typedef void exit_fn(plugin_id id, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, translated_fn *translated);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, enum op op, void *to,
                                              uint64_t number);
void qemu_plugin_register_atexit_cb(plugin_id id, exit_fn *at_exit, void *data);
void qemu_plugin_outs(const char *text);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t executed;

/* Each block of instructions adds their number when it begins. */
static void translated(plugin_id id, struct qemu_plugin_tb *block) {
    qemu_plugin_register_vcpu_tb_exec_inline(block, INLINE_ADD_U64, &executed,
                                             qemu_plugin_tb_n_insns(block));
}

static void at_exit(plugin_id id, void *data) {
    char text[64];
    snprintf(text, sizeof text, "instructions %" PRIu64 "\n", executed);
    qemu_plugin_outs(text);
}

__attribute__((visibility("default"))) int
qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv) {
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
    return 0;
}
