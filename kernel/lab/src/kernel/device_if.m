# The methods of a driver.
INTERFACE device;

# Returns how well the driver fits the hardware, or `None` if its hardware is not there. It must not touch more than it needs for that.
METHOD probe(device: &Device) -> Option<Fit>
    LOG "DEVICE_PROBE" Probe device.driver.name;

# Takes the hardware into use, and adds the devices behind it.
METHOD attach(device: &Device) -> Result<(), Failure>
    LOG "DEVICE_ATTACH" Attach device.name;
