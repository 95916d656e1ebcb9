/* A stand-in for libnvidia-ml.so.1 with two cards of one model and one of another. */
#include <stdio.h>
#include <string.h>

typedef struct { int index; } Card;
static Card cards[] = {{0}, {1}, {2}};
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
    *card = &cards[index];
    return 0;
}
int nvmlDeviceGetUUID(Card *card, char *text, unsigned size) {
    snprintf(text, size, "GPU-%d", card->index);
    return 0;
}
int nvmlDeviceGetName(Card *card, char *text, unsigned size) {
    snprintf(text, size, card->index < 2 ? "Tesla T4" : "H100");
    return 0;
}
int nvmlDeviceGetMinorNumber(Card *card, unsigned *minor) { *minor = 2 - card->index; return 0; }
int nvmlDeviceGetMemoryInfo(Card *card, unsigned long long *memory) {
    memory[0] = 16ULL << 30; memory[1] = 15ULL << 30; memory[2] = 1ULL << 30;
    return card ? 0 : 2;
}
int nvmlDeviceGetPciInfo_v3(Card *card, char *pci) {
    snprintf(pci + 36, 32, "00000000:0%d:00.0", card->index);
    return 0;
}
int nvmlDeviceGetPowerUsage(Card *card, unsigned *milliwatts) { *milliwatts = 70500; return card ? 0 : 2; }
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
