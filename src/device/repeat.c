#include "device/repeat.h"

#include "device/device.h"

rp_status device_repeat_refuse(rp_error *err) {
    return device_check_captured(NULL, "rp_compiled_run", DEVICE_RUN_CAPTURED, err);
}
