# What a driver can do with a device.
INTERFACE device;

# Whether the driver's hardware is there, and how well the driver fits it. It must not touch more than it needs to tell.
METHOD probe(device: &Device) -> Option<Fit>
    LOG "DEVICE_PROBE" Probe device.driver.name;

# Takes the hardware into use, and adds the devices behind it.
METHOD attach(device: &Device) -> Result<(), Failure>
    LOG "DEVICE_ATTACH" Attach device.name;
