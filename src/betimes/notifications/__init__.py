"""Notifications: does this person hear this NOW, LATER or NEVER?"""
