"""A cluster's few physical parameters from measurements of one's own (``dimsweep calibrate``)."""
