// No line of the SDK uses a name of this module; that the platform has it decides some branches.
