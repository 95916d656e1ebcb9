/* A stand-in for libnvidia-ml.so.1 with two cards of one model and one of another. FAKE_NVML in the environment
   names what is different: "mig" divides the last card into two parts, "lost" loses the second one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int index; } Card; /* 10 and 11: parts of card 2 */
static Card cards[] = {{0}, {1}, {2}};
static Card parts[] = {{10}, {11}};
static int has(const char *change) {
    const char *changes = getenv("FAKE_NVML");
    return changes && strstr(changes, change);
}
static int started;

int nvmlInit_v2(void) { started++; return 0; }
int nvmlShutdown(void) { started--; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return started ? 0 : 1; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    snprintf(text, size, "535.104.05");
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Card **card) {
    if (index > 2) return 2;
    if (index == 1 && has("lost")) return 15; /* the card is lost */
    *card = &cards[index];
    return 0;
}
int nvmlDeviceGetMigMode(Card *card, unsigned *current, unsigned *pending) {
    if (card->index < 2) return 3; /* not supported */
    *current = *pending = has("mig");
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(Card *card, unsigned *count) { *count = 7; return card ? 0 : 2; }
int nvmlDeviceGetMigDeviceHandleByIndex(Card *card, unsigned index, Card **part) {
    if (card->index != 2 || index > 2 || index == 1) return 6; /* not found */
    *part = &parts[index / 2];
    return 0;
}
int nvmlDeviceGetGpuInstanceId(Card *part, unsigned *id) { *id = part->index; return part->index < 10 ? 3 : 0; }
int nvmlDeviceGetComputeInstanceId(Card *part, unsigned *id) { *id = 0; return part->index < 10 ? 3 : 0; }
int nvmlDeviceGetUUID(Card *card, char *text, unsigned size) {
    snprintf(text, size, card->index < 10 ? "GPU-%d" : "MIG-%d", card->index);
    return 0;
}
int nvmlDeviceGetName(Card *card, char *text, unsigned size) {
    snprintf(text, size, card->index < 2 ? "Tesla T4" : card->index < 10 ? "H100" : "H100 MIG 1g.10gb");
    return 0;
}
int nvmlDeviceGetMinorNumber(Card *card, unsigned *minor) { *minor = 2 - card->index; return card->index < 10 ? 0 : 3; }
int nvmlDeviceGetMemoryInfo(Card *card, unsigned long long *memory) {
    memory[0] = card->index < 10 ? 16ULL << 30 : 10ULL << 30; memory[1] = 15ULL << 30; memory[2] = 1ULL << 30;
    return card ? 0 : 2;
}
int nvmlDeviceGetPciInfo_v3(Card *card, char *pci) {
    snprintf(pci + 36, 32, "00000000:0%d:00.0", card->index);
    return 0;
}
int nvmlDeviceGetPowerUsage(Card *card, unsigned *milliwatts) { *milliwatts = 70500; return card->index < 10 ? 0 : 3; }
int nvmlDeviceGetPowerManagementLimit(Card *card, unsigned *milliwatts) {
    if (card->index == 2) return 3; /* not supported */
    *milliwatts = 70000;
    return 0;
}
int nvmlDeviceGetUtilizationRates(Card *card, unsigned *rates) {
    rates[0] = 37; rates[1] = 12;
    return card ? 0 : 2;
}
int nvmlDeviceGetTemperature(Card *card, int sensor, unsigned *degrees) {
    *degrees = 61;
    return card && sensor == 0 ? 0 : 2;
}
