#pragma once
// The revision of the device headers' interface towards generated code: raised when generated sources written
// before a change would no longer compile against the headers.

#define STITCH_DEVICE_REVISION 1
