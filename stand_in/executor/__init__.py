"""What AWS would run, run here: builds, instances and endpoints of the stand-in become processes on loopback."""
